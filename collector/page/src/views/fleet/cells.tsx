/** The cells of a job's row. */
import type { ComponentChildren } from "preact";
import { incidentPath, jobPath } from "../../app/place";
import { Sparkline } from "../../charts/sparkline";
import { counted, money, number, percent, seconds, span, UNKNOWN } from "../../words/quantities";
import type { Tone } from "../../words/verdict";
import { staleWords } from "../shared/stale";
import { State } from "../shared/state";
import { type Line, needOf, type OrderName } from "./arrange";
import { incidentWords } from "./sentence";

/** A column: its name in the style sheet, its head, the order that its head chooses, and its cells. */
interface Column {
  name: string;
  head: string;
  sort: OrderName;
  cell: (line: Line) => ComponentChildren;
}

/** The columns from left to right. */
export const COLUMNS: readonly Column[] = [
  { name: "job", head: "Job", sort: "name", cell: (line) => <Name line={line} /> },
  { name: "what", head: "State", sort: "need", cell: (line) => <What line={line} /> },
  { name: "pace", head: "Step time", sort: "pace", cell: (line) => <Pace line={line} /> },
  { name: "goodput", head: "Goodput", sort: "goodput", cell: (line) => <Goodput line={line} /> },
  { name: "checkpoint", head: "Verified save", sort: "checkpoint", cell: (line) => <Checkpoint line={line} /> },
  { name: "money", head: "Money today", sort: "money", cell: (line) => <Known words={moneyOf(line)} title="no rate is known for today" /> },
  { name: "step", head: "Step", sort: "step", cell: (line) => <Known words={number(line.step, 0)} /> },
  { name: "devices", head: "Devices", sort: "devices", cell: (line) => <Known words={number(line.devices || null, 0)} /> },
];

/** A value; an unknown one is faint, and says why to the pointer. */
function Known({ words, title }: { words: string; title?: string | undefined }) {
  return words === UNKNOWN ? (
    <span class="quiet" title={title}>
      {UNKNOWN}
    </span>
  ) : (
    <>{words}</>
  );
}

const moneyOf = (line: Line): string => (line.cost_today ? money(line.cost_today.amount, line.cost_today.currency) : UNKNOWN);

function Name({ line }: { line: Line }) {
  const nodes = line.nodes.count > 1 ? counted(line.nodes.count, "node") : line.nodes.first[0];
  const words = [line.job_class, line.project, nodes].filter(Boolean).join(" · ");
  return (
    <>
      <a class="one" href={jobPath(line.job)} title={line.job}>
        <bdi>{line.job}</bdi>
      </a>
      <span class="one quiet small">{words}</span>
    </>
  );
}

/** The colour agrees with the incidents: red only where one is open. */
function toneOf(line: Line): Tone | undefined {
  const need = needOf(line);
  if (need === "act") return line.state === "degraded" || line.state === "stalled" ? "bad" : undefined;
  if (need === "failed") return "ended";
  return need === "unknown" ? "unsure" : undefined;
}

function What({ line }: { line: Line }) {
  const why = staleWords(line.stale) || (line.reason ?? "");
  const more = (line.open_incidents ?? 0) - 1;
  return (
    <span class="two" title={line.worst?.summary || why || undefined}>
      <State word={line.state} tone={toneOf(line)} /> {why}{" "}
      {line.worst && (
        <a href={incidentPath(line.worst.id)}>
          <bdi>{incidentWords(line)}</bdi>
        </a>
      )}
      {more > 0 && <span class="quiet"> and {counted(more, "more incident")}</span>}
    </span>
  );
}

function Pace({ line }: { line: Line }) {
  const newest = line.pace.at(-1);
  if (newest === undefined) return <Known words={UNKNOWN} title="no step yet" />;
  return (
    <>
      <Sparkline values={line.pace} label={`step times, now ${seconds(newest)}`} /> <span class="now">{seconds(newest)}</span>
    </>
  );
}

function Goodput({ line }: { line: Line }) {
  const run = `over the run: ${percent(line.goodput.run)}`;
  return line.goodput.today === null ? <Known words={UNKNOWN} title={run} /> : <span title={run}>{percent(line.goodput.today)}</span>;
}

/** The age of the newest checkpoint that a resume could load. */
function Checkpoint({ line }: { line: Line }) {
  const { saved_at, step, reason } = line.verified_checkpoint;
  if (step === null) return <span class="quiet" title={reason}>{reason.startsWith("no checkpoint has") ? "none verified" : "none known"}</span>;
  if (saved_at === null) return <span title={reason}>step {number(step, 0)}</span>;
  const age = Math.max(0, (line.as_of ?? Date.now() / 1000) - saved_at);
  return <span title={`step ${number(step, 0)}`}>{span(age)} ago</span>;
}
