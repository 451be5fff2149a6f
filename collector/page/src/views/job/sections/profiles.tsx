/** Profiles of a job: what each comparison shows, and both traces for Perfetto. */
import { useSignal } from "@preact/signals";
import { useAnswer } from "../../../api/answer";
import { getBytes } from "../../../api/client";
import type { Schemas } from "../../../api/types";
import { bytes } from "../../../words/quantities";
import { Loaded } from "../../shared/loading";
import { Moment } from "../../shared/moment";
import { State } from "../../shared/state";
import { Table } from "../../shared/table";
import { openInPerfetto } from "./perfetto";

type Profile = Schemas["Profile"];
type Trace = Schemas["Trace"];
const MOST_PROFILES = 10;
const COLUMNS = ["Requested", "Ranks", "Steps", "Result", "Traces"] as const;

/** The profiles, newest first. */
export function Profiles({ job }: { job: string }) {
  const path = `/v1/jobs/${encodeURIComponent(job)}/profiles`;
  const answer = useAnswer<Schemas["ProfilesAnswer"]>(path, { topic: `job:${job}`, leastMs: 10_000 }).value;
  const words = useSignal("");
  return (
    <Loaded answer={answer}>
      {({ profiles }) => (
        <>
          <Table
            id="profiles-table"
            columns={COLUMNS}
            rows={profiles.slice(0, MOST_PROFILES).map((profile) => rowOf(profile, (text) => (words.value = text)))}
            empty={<NoProfile job={job} />}
          />
          <p class="small" role="status" id="profiles-note">
            {words.value}
          </p>
          {profiles.length > 0 && (
            <p class="quiet small">
              Perfetto runs in this browser: a trace goes from here to its window, and to no server. If ui.perfetto.dev is
              not reachable, download the trace.
            </p>
          )}
        </>
      )}
    </Loaded>
  );
}

function NoProfile({ job }: { job: string }) {
  return (
    <>
      None so far. <code>{`stepwatch profile ${job} --rank RANK`}</code> compares a rank with a peer.
    </>
  );
}

function rowOf(profile: Profile, say: (text: string) => void) {
  return [
    <>
      <Moment at={profile.requested_at} />
      {profile.by ? `, ${profile.by}` : ""}
    </>,
    `${profile.rank} and ${profile.peer}`,
    `${profile.first_step}-${profile.first_step + profile.steps - 1}`,
    <>
      <State word={profile.state} /> {profile.sentence}
    </>,
    <>
      {profile.traces.map((trace) => (
        <TraceLine key={trace.rank} profile={profile} trace={trace} say={say} />
      ))}
    </>,
  ];
}

function TraceLine({ profile, trace, say }: { profile: Profile; trace: Trace; say: (text: string) => void }) {
  if (!trace.bytes) return <p>{`rank ${trace.rank}: ${trace.reason || "no longer kept"}`}</p>;
  const path = `/v1/profiles/${encodeURIComponent(profile.id)}/traces/${trace.rank}`;
  const name = `${profile.id}-rank${trace.rank}.json.gz`;
  const failed = (error: unknown): void =>
    say(`The trace of rank ${trace.rank} was not read: ${error instanceof Error ? error.message : String(error)}`);
  return (
    <p class="row">
      <a
        href={path}
        download={name}
        onClick={(event) => {
          // A link carries no token: the script reads the trace and saves it.
          event.preventDefault();
          save(path, name).catch(failed);
        }}
      >
        {`rank ${trace.rank} (${bytes(trace.bytes)})`}
      </a>
      <button
        type="button"
        class="chip"
        onClick={() => {
          say("");
          const title = `${profile.job}, rank ${trace.rank}, profile ${profile.id}`;
          openInPerfetto(path, title, name).catch(failed);
        }}
      >
        open in Perfetto
      </button>
    </p>
  );
}

const KEPT_MS = 60_000;

async function save(path: string, name: string): Promise<void> {
  const trace = await getBytes(path);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([trace], { type: "application/gzip" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
