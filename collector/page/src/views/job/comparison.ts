/** What a job's curves are compared with: another job, or one attempt of any. Pure. */
import type { Schemas } from "../../api/types";

type Series = Schemas["Series"];
type Attempt = Pick<Schemas["Attempt"], "attempt" | "began_at">;

/** A job; `attempt` is null for all of its attempts. */
export interface Reference {
  job: string;
  attempt: number | null;
}

/** Returns the reference in an address: "llama-7b", or "llama-7b@3" for its attempt 3; null without one. */
export function referenceOf(text: string): Reference | null {
  const match = /^([^@]+)(?:@(\d{1,9}))?$/.exec(text);
  return match?.[1] ? { job: match[1], attempt: match[2] === undefined ? null : Number(match[2]) } : null;
}

/** Returns a reference as the address holds it. */
export const referenceText = ({ job, attempt }: Reference): string => (attempt === null ? job : `${job}@${attempt}`);

/** Returns a reference in words, on the page of a job: "attempt 3", "llama-7b-old", "llama-7b-old, attempt 3". */
export const referenceWords = (page: string, { job, attempt }: Reference): string =>
  [...(job === page && attempt !== null ? [] : [job]), ...(attempt === null ? [] : [`attempt ${attempt}`])].join(", ");

/** Returns an attempt's points; all with a null attempt. */
export function ofAttempt(series: Series, attempt: number | null): Series {
  if (attempt === null) return series;
  const kept = series.attempt.map((number) => number === attempt);
  const only = <T>(column: readonly T[]): T[] => column.filter((_, index) => kept[index]);
  return {
    ...series,
    attempt: only(series.attempt),
    step: only(series.step),
    at: only(series.at),
    mean: only(series.mean),
    min: only(series.min),
    max: only(series.max),
    last: only(series.last),
    non_finite: only(series.non_finite),
  };
}

/** Returns when a job began, or its attempt of that number; null if it is unknown. */
export function beganAt(attempts: readonly Attempt[], attempt: number | null): number | null {
  const known = attempts.filter((one) => attempt === null || one.attempt === attempt).flatMap(({ began_at }) => began_at ?? []);
  return known.length ? Math.min(...known) : null;
}

/** Returns the newest attempt's number; null without one. */
export const newestAttempt = (attempts: readonly Attempt[]): number | null =>
  attempts.length ? Math.max(...attempts.map(({ attempt }) => attempt)) : null;

/** Returns the series with their moments later by `seconds`. */
export const shifted = (all: readonly Series[], seconds: number): Series[] =>
  all.map((series) => ({ ...series, at: series.at.map((at) => (at === null ? null : at + seconds)) }));

/** Returns the first moment of some series; null without one. */
export function firstMoment(all: readonly Series[]): number | null {
  const moments = all.flatMap(({ at }) => at.find((moment) => moment !== null) ?? []);
  return moments.length ? Math.min(...moments) : null;
}
