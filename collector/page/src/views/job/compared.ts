/** The curves that a job's are compared with, on its axis. */
import { useMemo } from "preact/hooks";
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { beganAt, firstMoment, isAbout, newestAttempt, referenceOf, referenceWords, shifted } from "./comparison";
import { chosen, seriesPath } from "./state";

/** Curves whose moments count from the beginning of the job's own, and their name. */
export interface Comparison {
  series: Schemas["Series"][];
  words: string;
}

/** Returns the chosen comparison; without one it has no curve. By time both begin at the same place. */
export function useComparison(job: string, attempts: readonly Schemas["Attempt"][]): Comparison {
  const { compare, metrics } = chosen.value;
  const reference = useMemo(() => referenceOf(compare), [compare]);
  const isOther = reference !== null && reference.job !== job;
  const curves = useAnswer<Schemas["SeriesAnswer"]>(reference && seriesPath(reference.job, metrics, null, reference.attempt)).value.value;
  const other = useAnswer<Schemas["JobAnswer"]>(isOther ? `/v1/jobs/${encodeURIComponent(reference.job)}?ranks=none` : null).value.value;
  return useMemo(() => {
    if (!reference || !curves || !isAbout(curves, reference)) return { series: [], words: "" };
    const known = isOther ? (other?.attempts ?? []) : attempts;
    const began = beganAt(known, reference.attempt) ?? firstMoment(curves.series);
    const own = beganAt(attempts, reference.attempt === null ? null : newestAttempt(attempts));
    const later = began === null || own === null ? 0 : own - began;
    return { series: shifted(curves.series, later), words: referenceWords(job, reference) };
  }, [curves, other, reference, job, JSON.stringify(attempts.map(({ began_at }) => began_at))]);
}
