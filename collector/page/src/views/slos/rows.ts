/** Objectives of all jobs in the order of their budgets, and of classes. Pure. */
import type { Schemas } from "../../api/types";
import { number, percent, UNKNOWN } from "../../words/quantities";

type Slo = Schemas["SloBudget"];

/** An objective of one job. */
export interface SloRow {
  job: string;
  jobClass: string;
  slo: Slo;
}

/** An objective over all jobs of a class. */
export interface ClassRow {
  jobClass: string;
  name: string;
  jobs: number;
  /** Jobs whose budget is evaluated: only their device-time counts. */
  evaluated: number;
  exhausted: number;
  remaining: number | null;
}

/** The class name of a job without a class. */
export const NO_CLASS = "no class";

const UNDECIDED: readonly string[] = ["too-early", "unknown", "frozen"];

/** Returns whether a state says nothing about the budget. */
export const isUndecided = (slo: Slo): boolean => UNDECIDED.includes(slo.state);

/** Returns all objectives: the least budget first, those that are not evaluated last. */
export function rowsOf(jobs: readonly Schemas["SlosOfJob"][]): SloRow[] {
  return jobs
    .flatMap(({ job, job_class, slos }) => slos.map((slo) => ({ job, jobClass: job_class ?? NO_CLASS, slo })))
    .sort((one, other) => place(one.slo) - place(other.slo) || (one.job < other.job ? -1 : 1));
}

/** A missed limit stands before all budgets, a kept one behind them. */
function place(slo: Slo): number {
  if (isUndecided(slo)) return 3;
  if (slo.limit !== null) return slo.state === "exhausted" ? Number.MIN_SAFE_INTEGER : 2;
  return slo.budget_remaining ?? 0;
}

/** Returns the budgets of classes, as sums of device-time over their jobs, the least first. */
export function classesOf(rows: readonly SloRow[]): ClassRow[] {
  const groups = new Map<string, SloRow[]>();
  for (const row of rows) {
    const key = JSON.stringify([row.jobClass, row.slo.name]);
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()]
    .map(classOf)
    .sort((one, other) => (one.remaining ?? 2) - (other.remaining ?? 2) || (one.jobClass < other.jobClass ? -1 : 1));
}

function classOf(rows: readonly SloRow[]): ClassRow {
  const evaluated = rows.filter(({ slo }) => !isUndecided(slo) && slo.budget_remaining !== null);
  const sum = (part: (slo: Slo) => number | null): number =>
    evaluated.reduce((total, { slo }) => total + (part(slo) ?? 0), 0);
  const allowed = sum((slo) => slo.allowed_device_seconds);
  return {
    jobClass: rows[0]?.jobClass ?? NO_CLASS,
    name: rows[0]?.slo.name ?? "",
    jobs: rows.length,
    evaluated: evaluated.length,
    exhausted: rows.filter(({ slo }) => slo.state === "exhausted").length,
    remaining: allowed > 0 ? 1 - sum((slo) => slo.lost_device_seconds) / allowed : null,
  };
}

/** Returns what an objective asks for: "at least 95.0% good", or its limit. */
export function targetWords(slo: Slo): string {
  if (slo.limit !== null) return slo.limit;
  return `at least ${percent(slo.target)}${slo.time_slices ? ` in ${slo.time_slices}` : " good"}`;
}

/** Returns what was measured; nothing while it is not evaluated. */
export function valueWords(slo: Slo): string {
  if (isUndecided(slo)) return UNKNOWN;
  return slo.limit === null ? percent(slo.ratio, 2) : number(slo.ratio, 3);
}

/** Returns a budget's rest in words: "40% left", "spent 1.6x". */
export function budgetWords(remaining: number | null): string {
  if (remaining === null) return UNKNOWN;
  return remaining > 0 ? `${percent(remaining, 0)} left` : `spent ${number(1 - remaining, 1)}x`;
}

/** Returns a sentence about the state of an objective. */
export function stateSentence(slo: Slo): string {
  switch (slo.state) {
    case "ok":
      return slo.limit === null ? `Kept: ${slo.budget} of the budget` : `Kept: ${valueWords(slo)}, ${slo.limit} is asked for`;
    case "burning": {
      const rate = slo.burn_rate === null ? "" : ` at ${number(slo.burn_rate, 1)} times the rate that the window allows`;
      return `The budget is being spent${rate}: ${slo.budget}`;
    }
    case "exhausted":
      return slo.limit === null ? `Missed: the budget is ${slo.budget}` : `Missed: ${valueWords(slo)}, ${slo.limit} is asked for`;
    case "too-early":
      return "Too early: the budget is not evaluated yet";
    case "frozen":
      return "Frozen: too little telemetry arrives to evaluate it";
    default:
      return "Unknown: it cannot be evaluated";
  }
}

const COUNTED: Readonly<Record<string, string>> = {
  goodput:
    "goodput loses start-up, stalls, steps done again, saves, time between attempts, and time without reports; a slow rank or communication costs it nothing while steps go on",
  "step-time": "step-time loses steps that are longer than twice their baseline, and stalls",
};

/** Returns what counts against an SLI's budget; empty where that is not known here. */
export const countedWords = (sli: string): string => COUNTED[sli] ?? "";

/** The path of an objective's page. */
export const sloPath = (job: string, name: string): string =>
  `/slos?job=${encodeURIComponent(job)}&name=${encodeURIComponent(name)}`;
