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

/** Whether an answer is about a reference: until the next one comes, that of the choice before is there. */
export const isAbout = ({ job, series }: Pick<Schemas["SeriesAnswer"], "job" | "series">, reference: Reference): boolean =>
  job === reference.job && (reference.attempt === null || series.every(({ attempt }) => (attempt[0] ?? reference.attempt) === reference.attempt));

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
