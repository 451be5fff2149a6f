/** One incident: the page that alerts and tickets link to. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { changes, useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { jobPath, nodePath } from "../../app/place";
import { useTitle } from "../../app/title";
import type { ViewProps } from "../../app/views";
import { clauses } from "../../words/verdict";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";
import { Curve } from "./curve";
import { EvidenceOf } from "./evidence";
import { Figures } from "./figures";
import { Related } from "./related";
import { Respond } from "../shared/respond";
import { FirstAction, RunbookOf, WrongIf } from "./runbook";
import { runbookPath } from "../shared/response";
import { historyOf } from "./story";

type Incident = Schemas["IncidentAnswer"];
/** An open incident's figures move, but slowly. */
const AGAIN_MS = 10_000;

/** The view. */
export function IncidentView({ name }: ViewProps) {
  const changed = useSignal<{ incident: Incident; at: number } | null>(null);
  const job = useSignal<string | null>(null);
  const path = `/v1/incidents/${encodeURIComponent(name)}`;
  const answer = useAnswer<Incident>(path, { topic: job.value && `job:${job.value}`, concerns: changes("summary"), everyMs: AGAIN_MS }).value;
  useEffect(() => {
    job.value = answer.value?.job ?? null;
  }, [answer.value?.job]);
  const isNewer = changed.value !== null && changed.value.at > answer.at;
  const value = isNewer && changed.value ? changed.value.incident : answer.value;
  useTitle(value ? `${value.job}: ${value.kind}` : "Incident", value?.state === "open" ? 1 : 0);
  return (
    <main id="incident">
      <Loaded answer={{ ...answer, value }} heading={`Incident ${name}`}>
        {(incident) => (
          <Shown
            incident={incident}
            at={isNewer && changed.value ? changed.value.at : answer.at}
            done={(newer) => (changed.value = { incident: newer, at: Date.now() })}
          />
        )}
      </Loaded>
    </main>
  );
}

interface ShownProps {
  incident: Incident;
  at: number;
  done: (changed: Incident) => void;
}

function Shown({ incident, at, done }: ShownProps) {
  const isOpen = incident.state === "open";
  const runbook = useAnswer<Schemas["RunbookAnswer"]>(`/v1${runbookPath(incident)}`).value;
  const [fact, rest] = clauses(isOpen ? incident.summary_now || incident.summary : incident.summary);
  return (
    <div class="stack">
      <p class="crumbs">
        <a href="/">Fleet</a> / <a href={jobPath(incident.job)}>{incident.job}</a> / <b>incident {incident.id}</b>
      </p>
      <section class={`panel verdict t-${isOpen ? (incident.severity === "alert" ? "bad" : "warn") : "ended"}`}>
        <div class="stack">
          <h1>{`${incident.job}: ${fact}`}</h1>
          <p class="quiet">{rest}</p>
          <p class="row small">
            <State word={incident.state} />
            {incident.severity === "info" && <span>for information: too small for an alert</span>}
            <Since incident={incident} />
            {incident.merged_into && (
              <span>
                explained by <a href={`/incidents/${encodeURIComponent(incident.merged_into)}`}>incident {incident.merged_into}</a>
              </span>
            )}
          </p>
          <Respond incident={incident} done={(response) => done({ ...incident, response })} />
          <Silenced response={incident.response} />
        </div>
      </section>
      <Figures incident={incident} at={at} />
      <div class="sides">
        <div class="stack">
          <section class="panel stack">
            <h2>Where it shows</h2>
            <Curve incident={incident} />
          </section>
          <section class="panel stack" id="evidence">
            <h2>Evidence</h2>
            <EvidenceOf rows={incident.evidence} />
          </section>
          <WrongIf incident={incident} runbook={runbook} />
        </div>
        <div class="stack">
          <FirstAction incident={incident} runbook={runbook} />
          <Timeline incident={incident} />
          <Related incident={incident} />
        </div>
      </div>
      <RunbookOf runbook={runbook} />
    </div>
  );
}

function Since({ incident }: { incident: Incident }) {
  const step = incident.since_step >= 0 ? `step ${incident.since_step.toLocaleString("en")}` : "";
  return (
    <span>
      since <Moment at={incident.began_at} />
      {step && `, ${step}`}
      {incident.resolved_at !== null && (
        <>
          , until <Moment at={incident.resolved_at} />
        </>
      )}
      {incident.node !== "unknown" && (
        <>
          {" "}
          on <a href={nodePath(incident.node)}>{incident.node}</a>
        </>
      )}
    </span>
  );
}

function Silenced({ response }: { response: Incident["response"] }) {
  const silence = response.silenced;
  if (!silence) return null;
  return (
    <p class="notice" id="silenced">
      Silenced until <Moment at={silence.until} /> by {silence.by}: {silence.why}. It sends no pages until then.
    </p>
  );
}

function Timeline({ incident }: { incident: Incident }) {
  return (
    <section class="panel stack" id="timeline">
      <h2>Timeline</h2>
      <ol class="events">
        {historyOf(incident).map((event, index) => (
          <li key={index} class={event.byPeople ? "by-people" : ""}>
            <Moment at={event.at} /> {event.words}
          </li>
        ))}
      </ol>
    </section>
  );
}
