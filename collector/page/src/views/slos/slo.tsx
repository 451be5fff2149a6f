/** One objective: its state in words, the course of its budget, and what ate it. */
import { useMemo } from "preact/hooks";
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { incidentPath, jobPath } from "../../app/place";
import { useTitle } from "../../app/title";
import type { Mark } from "../../charts/frame";
import { StackedBar } from "../../charts/stacked_bars";
import type { TrackData } from "../../charts/track_data";
import { CAUSES } from "../../theme/colours";
import { deviceTime, money, number, percent } from "../../words/quantities";
import { FigureList } from "../shared/figures";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { Plot } from "../shared/plot";
import { staleWords } from "../shared/stale";
import { State } from "../shared/state";
import { Table } from "../shared/table";
import { countedWords, isUndecided, stateSentence, targetWords, valueWords } from "./rows";
import { lossesOf, partsOf } from "./spent";

type Answer = Schemas["JobSlosAnswer"];
type Slo = Schemas["SloInFull"];
const EVERY_MS = 10_000;
const SPENT_POINTS = 200;

/** The view of one objective. */
export function OneSlo({ job, name }: { job: string; name: string }) {
  const base = `/v1/jobs/${encodeURIComponent(job)}`;
  const answer = useAnswer<Answer>(`${base}/slos`, { everyMs: EVERY_MS }).value;
  useTitle(`${name} of ${job}`, answer.value?.open_incidents);
  return (
    <main>
      <p class="crumbs">
        <a href="/slos">SLOs</a> / <a href={jobPath(job)}>{job}</a> / <b>{name}</b>
      </p>
      <Loaded answer={answer}>
        {(value) => {
          const slo = value.slos.find((item) => item.name === name);
          return slo ? <Shown base={base} answer={value} slo={slo} /> : <NoSuch answer={value} name={name} />;
        }}
      </Loaded>
    </main>
  );
}

function NoSuch({ answer, name }: { answer: Answer; name: string }) {
  const others = answer.slos.map((slo) => slo.name).join(", ") || "none";
  return (
    <p class="empty">
      This job has no SLO {name}. It has: {others}.
    </p>
  );
}

const TONES: Readonly<Record<string, string>> = { ok: "good", burning: "warn", exhausted: "bad" };

function Shown({ base, answer, slo }: { base: string; answer: Answer; slo: Slo }) {
  const old = staleWords(answer.stale);
  return (
    <div class="stack">
      <header class={`panel stack verdict t-${TONES[slo.state] ?? "unsure"}`}>
        <div class="stack">
          <h1 id="title">
            {slo.name}: {stateSentence(slo)}
          </h1>
          <p>
            <State word={slo.state} /> {slo.reason || `objective of ${answer.job}`}
          </p>
          {old && <p class="notice">{old}</p>}
        </div>
      </header>
      <Figures slo={slo} />
      <Burndown base={base} job={answer.job} slo={slo} />
      <Eaten base={base} slo={slo} />
      <Incidents slo={slo} />
      <Audit slo={slo} />
      <Generations slo={slo} />
    </div>
  );
}

function Figures({ slo }: { slo: Slo }) {
  const isOpen = isUndecided(slo);
  const figures: [string, string][] = [
    [valueWords(slo), `measured; asked for: ${targetWords(slo)}`],
    ...(slo.limit === null
      ? ([
          [isOpen ? "unknown" : slo.budget, "of the budget"],
          [isOpen ? "unknown" : deviceTime(slo.lost_device_seconds), `lost of ${deviceTime(slo.allowed_device_seconds)} allowed`],
          [number(slo.burn_rate, 1), "burn rate now; 1 is what the window allows"],
          [number(slo.burn_rate_hour, 1), "burn rate in the last hour"],
          [percent(slo.coverage), "of telemetry arrived"],
        ] satisfies [string, string][])
      : []),
    ...(slo.price && slo.lost_device_seconds !== null && !isOpen
      ? ([[money(slo.price.money * slo.lost_device_seconds, slo.price.currency), "price of what was lost"]] satisfies [string, string][])
      : []),
  ];
  return (
    <section class="panel" aria-label="Figures">
      <FigureList figures={figures} isFirstLarge />
      <p class="quiet small">
        Window: {slo.window}
        {slo.window_begins_at !== null && (
          <>
            , from <Moment at={slo.window_begins_at} /> to <Moment at={slo.window_ends_at} />
          </>
        )}
        . SLI: {slo.sli}
        {slo.clock && `, timed on the ${slo.clock}`}.
      </p>
    </section>
  );
}

function Burndown({ base, job, slo }: { base: string; job: string; slo: Slo }) {
  const { at, remaining } = slo.burndown;
  const data = useMemo<TrackData>(
    () => ({ x: at, lines: [{ label: "budget left", colour: "--data", values: remaining }] }),
    [at, remaining],
  );
  const [first, last] = [at[0], at.at(-1)];
  const path = slo.window_begins_at === null ? null : `${base}/marks?from=${minuteOf(slo.window_begins_at)}`;
  const events = useAnswer<Schemas["MarksAnswer"]>(path, { everyMs: 30_000 }).value.value;
  const marks = useMemo(() => marksOf(slo, events), [slo.audit, events]);
  return (
    <section class="panel stack">
      <h2>How the budget was spent</h2>
      {first === undefined || last === undefined ? (
        <p class="quiet" id="no-burndown">
          {slo.limit === null ? `No course yet: ${slo.reason || "nothing was counted in the window"}.` : "A limit has no budget."}
        </p>
      ) : (
        <Plot
          id="burndown"
          about={`${slo.name} of ${job}`}
          parts={[{ title: "budget left", data, format: (value) => percent(value, 0), height: 170, ...rangeOf(remaining) }]}
          kind="time"
          whole={{ min: first, max: last }}
          marks={marks}
        />
      )}
    </section>
  );
}

/** A budget is drawn from empty to full, and below where it is overspent. */
const rangeOf = (remaining: readonly number[]): { fixed?: [number, number] } =>
  Math.min(...remaining) < 0 ? {} : { fixed: [0, 1.05] };

const MARKED: Readonly<Record<string, string>> = { planned: "planned time", amended: "amended", unread: "not readable" };

/** To the minute: a window that rolls asks for another answer once a minute, not each time. */
const minuteOf = (at: number): number => Math.max(0, Math.floor(at / 60) * 60);

/** Returns incidents and restarts in the window, and what counts differently. */
function marksOf(slo: Slo, events: Schemas["MarksAnswer"] | null): Mark[] {
  const audit = slo.audit.map((entry): Mark => {
    const words = `${MARKED[entry.what] ?? entry.what}: ${entry.text}`;
    return { kind: "evaluation", x: entry.from, words, bad: false, id: null };
  });
  const others = (events?.marks ?? []).flatMap((mark): Mark[] =>
    mark.at !== null && (mark.kind === "incident" || mark.kind === "restart")
      ? [{ kind: mark.kind, x: mark.at, words: mark.words, bad: mark.kind === "incident", id: mark.id }]
      : [],
  );
  return [...audit, ...others];
}

function Eaten({ base, slo }: { base: string; slo: Slo }) {
  const from = slo.window_begins_at;
  const path = from === null ? null : `${base}/spent?from=${minuteOf(from)}&points=${SPENT_POINTS}`;
  const answer = useAnswer<Schemas["SpentAnswer"]>(path, { everyMs: 30_000 }).value;
  return (
    <section class="panel stack" id="eaten">
      <h2>Where device-time went in the window</h2>
      {countedWords(slo.sli) && <p class="quiet small">Of this, {countedWords(slo.sli)}.</p>}
      {path === null ? <p class="quiet">Nothing was counted yet.</p> : <Loaded answer={answer}>{(value) => <Causes answer={value} />}</Loaded>}
    </section>
  );
}

function Causes({ answer }: { answer: Schemas["SpentAnswer"] }) {
  const parts = partsOf(answer);
  if (!parts.length) return <p class="quiet">No device-time is known in this window.</p>;
  const rows = lossesOf(parts).map(({ cause, seconds, share }) => [
    <span class="key">
      <i style={{ background: CAUSES[cause] ?? "transparent" }} /> {cause.replaceAll("-", " ")}
    </span>,
    deviceTime(seconds),
    percent(share),
  ]);
  return (
    <>
      <StackedBar parts={parts.map(({ cause, share }) => ({ name: cause, share }))} />
      <p class="quiet small">Productive: {percent(parts.find(({ cause }) => cause === "productive")?.share ?? 0)}. The rest:</p>
      <Table id="causes" columns={["Cause", "Device-time", "Share"]} rows={rows} empty="All of it was productive." />
    </>
  );
}

function Incidents({ slo }: { slo: Slo }) {
  const rows = slo.incidents.map((item) => [
    <a href={incidentPath(item.id)}>{item.kind.replaceAll("_", " ")}</a>,
    item.rank >= 0 ? `rank ${item.rank}${item.node ? ` on ${item.node}` : ""}` : item.node || "",
    item.cause.replaceAll("-", " "),
    deviceTime(item.device_seconds_lost),
    item.currency ? money(item.cost, item.currency) : "",
  ]);
  return (
    <section class="panel stack">
      <h2>Incidents in the window</h2>
      <Table
        id="incidents"
        columns={["Incident", "Where", "Cause", "Device-time lost", "Cost"]}
        rows={rows}
        empty="No incident cost device-time in this window."
      />
    </section>
  );
}

function Audit({ slo }: { slo: Slo }) {
  if (!slo.audit.length) return null;
  const rows = slo.audit.map((entry) => [<Moment at={entry.from} />, <Moment at={entry.until} />, entry.text]);
  return (
    <section class="panel stack">
      <h2>What counts differently</h2>
      <Table id="audit" columns={["From", "Until", "What"]} rows={rows} />
    </section>
  );
}

function Generations({ slo }: { slo: Slo }) {
  if (slo.generations.length < 2) return null;
  const rows = slo.generations.map((item) => [
    item.number,
    <Moment at={item.since_s} />,
    Object.entries(item.document).map(([name, value]) => `${name}: ${String(value)}`).join(", "),
  ]);
  return (
    <section class="panel stack">
      <h2>Former objectives</h2>
      <Table id="generations" columns={["Number", "Since", "Objective"]} rows={rows} />
    </section>
  );
}
