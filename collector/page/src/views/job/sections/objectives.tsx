/** SLOs, checkpoints, attempts and device-time of a job. */
import type { Schemas } from "../../../api/types";
import { bytes, deviceTime, number, percent, seconds, UNKNOWN } from "../../../words/quantities";
import { sloPath } from "../../slos/rows";
import { Moment } from "../../shared/moment";
import { State } from "../../shared/state";
import { Table } from "../../shared/table";

type Job = Schemas["JobAnswer"];
type Slo = Schemas["SloLine"];

/** Objectives with their budgets. */
export function Slos({ job, slos }: { job: string; slos: readonly Slo[] }) {
  const columns = ["SLO", "State", "Good", "Target", "Budget", "Coverage", "Timed on"];
  const rows = slos.map((slo) => [
    <a href={sloPath(job, slo.name)}>{slo.name}</a>,
    <State word={slo.state} title={slo.reason} />,
    ...measured(slo),
    percent(slo.coverage),
    slo.clock ?? UNKNOWN,
  ]);
  return <Table id="slos-table" columns={columns} rows={rows} empty="This job has no SLO." />;
}

/** Good, target and budget; of an SLO with a limit its value and the limit; undecided has no figure. */
function measured(slo: Slo): string[] {
  const undecided = ["too-early", "unknown", "frozen"].includes(slo.state);
  const ratio = slo.ratio === null ? UNKNOWN : String(Number(slo.ratio.toPrecision(4)));
  const value = slo.limit === null ? percent(slo.ratio) : ratio;
  return [undecided ? "" : value, slo.limit ?? percent(slo.target), undecided ? "" : slo.budget];
}

/** Saves, newest first. */
export function Checkpoints({ items }: { items: Job["checkpoints"] }) {
  const word = (item: Schemas["Checkpoint"]): string =>
    item.is_damaged ? "damaged" : item.verified === true ? "verified" : item.verified === false ? "failed" : UNKNOWN;
  const rows = [...items].reverse().map((item) => [
    item.step,
    <>
      <State word={word(item)} /> {item.reason} {item.is_removed ? "removed" : ""}
    </>,
    <Moment at={item.saved_s} />,
    seconds(item.stall_seconds),
    seconds(item.durable_seconds),
    bytes(item.size_bytes),
  ]);
  return <Table id="checkpoints-table" columns={["Step", "Verified", "Saved", "Stall", "Durable after", "Size"]} rows={rows} />;
}

/** Attempts, and what each resume continued. */
export function Attempts({ items }: { items: Job["attempts"] }) {
  const rows = items.map((item) => [
    item.attempt,
    <Moment at={item.began_at} />,
    item.first_step,
    number(item.steps, 0),
    item.resume ? resumeWords(item.resume) : "",
  ]);
  return <Table id="attempts-table" columns={["Attempt", "Began", "First step", "Steps", "Resume"]} rows={rows} />;
}

/** What a resume continued; null is unknown. */
export function resumeWords(resume: Schemas["Resume"]): string {
  const word = (value: boolean | null): string =>
    value === true ? "continued" : value === false ? "not continued" : "unknown if it continued";
  const from = `resumed from step ${resume.step}${resume.path ? `, ${resume.path}` : ""}`;
  const loss = `loss ${number(resume.loss_before, 3)} → ${number(resume.loss_after, 3)}, ${word(resume.loss_continued)}`;
  return `${from}: ${loss}; learning rate ${word(resume.learning_rate_continued)}; data order ${resume.data_order}`;
}

/** Device-time by cause since the beginning. */
export function Spent({ job }: { job: Job }) {
  const total = Object.values(job.device_seconds).reduce((sum, value) => sum + value, 0);
  const rows = Object.entries(job.device_seconds)
    .filter(([, value]) => value > 0)
    .sort((one, other) => other[1] - one[1])
    .map(([cause, value]) => [cause, deviceTime(value), percent(value / total)]);
  return <Table id="spent-table" columns={["Cause", "Device-time", "Share"]} rows={rows} empty="Not known yet." />;
}
