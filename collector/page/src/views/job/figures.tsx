/** The figures of a job that people say aloud, with what they are compared with. */
import type { Schemas } from "../../api/types";
import { money, number, percent, seconds, short, span } from "../../words/quantities";
import { FigureList } from "../shared/figures";

type Job = Schemas["JobAnswer"];
type Figure = [value: string, words: string];

/** Returns the figures; what a job does not report is left out, except the step. */
export function figuresOf(job: Job, now: number): Figure[] {
  const goodput = job.slos.find((slo) => slo.sli === "goodput");
  return [
    [number(job.step, 0), `step · attempt ${job.attempt ?? "unknown"}`],
    ...lossOf(job),
    ...(job.tokens_per_second === null ? [] : [[short(job.tokens_per_second), "tokens/s"] satisfies Figure]),
    [seconds(job.step_seconds.p50), `step p50 · p95 ${seconds(job.step_seconds.p95)}`],
    ...(goodput ? [[percent(goodput.ratio), `goodput · budget ${goodput.budget}`] satisfies Figure] : []),
    ...checkpointOf(job, now),
    ...(job.cost?.money == null ? [] : [[money(job.cost.money, job.cost.currency), "cost so far"] satisfies Figure]),
    [number(job.world_size || null, 0), "ranks"],
  ];
}

function lossOf(job: Job): Figure[] {
  if (job.loss_last === null) return [];
  const first = job.loss_first === null ? "" : ` · first ${number(job.loss_first, 3)}`;
  return [[number(job.loss_last, 3), `loss${first}`]];
}

function checkpointOf(job: Job, now: number): Figure[] {
  if (!job.checkpoints.length) return [];
  const verified = job.checkpoints.filter((item) => item.verified === true && !item.is_removed && !item.is_damaged);
  const newest = Math.max(...verified.map((item) => item.saved_s ?? Number.NEGATIVE_INFINITY));
  if (!Number.isFinite(newest)) return [["none", "verified checkpoint"]];
  return [[span(now - newest), "since a verified checkpoint"]];
}

/** The figures as a list. */
export function Figures({ job }: { job: Job }) {
  return <FigureList figures={figuresOf(job, job.as_of ?? Date.now() / 1000)} />;
}
