/** From answers to tracks: what is drawn over the axis of a job. Pure. */
import type { Schemas } from "../../api/types";
import type { Mark } from "../../charts/frame";
import type { MatrixData } from "../../charts/matrix_data";
import { type AxisKind, type Span, stepAt, type StepTimes } from "../../charts/range";
import type { Line, TrackData } from "../../charts/track_data";
import { CAUSES } from "../../theme/colours";

type Series = Schemas["Series"];
type Point = [number, number, number | null];

/** Returns the longest series of steps with their moments: it ties the two axes together. */
export function stepTimes(series: readonly Series[]): StepTimes {
  const longest = series
    .filter((item) => !item.evaluation)
    .reduce<Series | null>((best, item) => (item.step.length > (best?.step.length ?? 0) ? item : best), null);
  const times: { step: number[]; at: number[] } = { step: [], at: [] };
  longest?.step.forEach((step, index) => {
    const at = longest.at[index];
    const [lastStep, lastAt] = [times.step.at(-1) ?? -1, times.at.at(-1) ?? 0];
    if (at === null || at === undefined || step <= lastStep || at < lastAt) return;
    times.step.push(step);
    times.at.push(at);
  });
  return times;
}

/** Returns a place on the axis, for a moment and the step that may be known with it. */
export function placer(kind: AxisKind, times: StepTimes): (at: number, step: number | null) => number {
  return kind === "time" ? (at) => at : (at, step) => step ?? stepAt(times, at);
}

/** Returns the span of an axis for a range of moments, or of everything that is known. */
export function spanOf(kind: AxisKind, times: StepTimes, range: [number, number] | null): Span {
  const values = kind === "time" ? times.at : times.step;
  const all: Span = { min: values[0] ?? 0, max: values.at(-1) ?? 1 };
  if (!range) return widened(all);
  const [from, to] = kind === "time" ? range : [stepAt(times, range[0]), stepAt(times, range[1])];
  return widened({ min: from, max: to });
}

const widened = (span: Span): Span => (span.max > span.min ? span : { min: span.min - 0.5, max: span.min + 0.5 });

/** Adds the points of a live event to a series by step; a point of a known step replaces it. */
export function withPoints(series: Series, points: readonly Point[], attempt: number): Series {
  const first = points[0]?.[0];
  if (first === undefined) return series;
  let kept = series.step.length;
  while (kept > 0 && (series.step[kept - 1] ?? -1) >= first) kept -= 1;
  const values = points.map(([, , value]) => value);
  const joined = <T>(before: readonly T[], added: readonly T[]): T[] => [...before.slice(0, kept), ...added];
  return {
    ...series,
    attempt: joined(series.attempt, points.map(() => attempt)),
    step: joined(series.step, points.map(([step]) => step)),
    at: joined(series.at, points.map(([, at]) => at)),
    mean: joined(series.mean, values),
    min: joined(series.min, values),
    max: joined(series.max, values),
    last: joined(series.last, values),
    non_finite: joined(series.non_finite, points.map(([, , value]) => (value === null ? 1 : 0))),
  };
}

const BAND_FROM = 24;

/**
 * Returns a metric's line. A single value a bucket has no band; many values, each its own bucket, get
 * the median and the range of the newest `window` ones, as a band, in place of a jagged line.
 */
export function lineOf(series: Series, colour: string, banded: boolean): { x: Series; line: Line } {
  const isSingle = series.min.every((value, index) => value === series.max[index]);
  if (!isSingle) {
    return { x: series, line: { label: labelOf(series), colour, values: series.mean, low: series.min, high: series.max } };
  }
  const line: Line = { label: labelOf(series), colour, values: series.mean };
  if (banded && series.step.length >= BAND_FROM) Object.assign(line, windowBand(series.mean));
  return { x: series, line };
}

const HALF_WINDOW = 4;

/** Returns the median and the range of nine neighbours of each value, within known ones. */
export function windowBand(values: readonly (number | null)[]): Pick<Line, "values" | "low" | "high"> {
  const medians: (number | null)[] = [];
  const low: (number | null)[] = [];
  const high: (number | null)[] = [];
  values.forEach((value, index) => {
    const near = values
      .slice(Math.max(0, index - HALF_WINDOW), index + HALF_WINDOW + 1)
      .filter((other): other is number => other !== null)
      .sort((one, other) => one - other);
    const isKnown = value !== null && near.length > 0;
    medians.push(isKnown ? (near[near.length >> 1] ?? null) : null);
    low.push(isKnown ? (near[0] ?? null) : null);
    high.push(isKnown ? (near.at(-1) ?? null) : null);
  });
  return { values: medians, low, high };
}

const WORDS: Readonly<Record<string, string>> = {
  step_seconds: "step time",
  tokens_per_second: "tokens/s",
  mfu: "MFU",
  grad_norm: "gradient norm",
  lr: "learning rate",
};

/** A metric as the page names it. */
export const labelOf = ({ name, evaluation }: { name: string; evaluation: string }): string =>
  evaluation ? `${name} (${evaluation})` : (WORDS[name] ?? name.replaceAll("_", " "));

/**
 * Returns the exponential mean of known values, for a curve that is noisy; `weight` is that of the past.
 * The start is corrected, so that the first value counts whole.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let norm = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

/** Returns lines of several series over one ascending x; a series without a value there has null. */
export function joinedLines(
  parts: readonly { x: Series; line: Line }[],
  place: (at: number, step: number | null) => number,
): TrackData {
  const columns = parts.map(({ x, line }) => {
    const places = x.step.map((step, index) => place(x.at[index] ?? 0, step));
    return { places, line };
  });
  const [only] = columns;
  if (columns.length === 1 && only && ascends(only.places)) return { x: only.places, lines: [only.line] };
  const all = [...new Set(columns.flatMap(({ places }) => places))].sort((one, other) => one - other);
  const index = new Map(all.map((value, position) => [value, position]));
  const spread = (places: number[], values: (number | null)[]): (number | null)[] => {
    const column: (number | null)[] = Array.from({ length: all.length }, () => null);
    places.forEach((value, position) => {
      column[index.get(value) ?? 0] = values[position] ?? null;
    });
    return column;
  };
  const lines = columns.map(({ places, line }) => ({
    ...line,
    values: spread(places, line.values),
    ...(line.low && line.high ? { low: spread(places, line.low), high: spread(places, line.high) } : {}),
  }));
  return { x: all, lines };
}

const ascends = (values: readonly number[]): boolean =>
  values.every((value, index) => index === 0 || value > (values[index - 1] ?? 0));

/** Returns where device-time went, as shares of each bucket, stacked in the order of `CAUSES`. */
export function spentTrack(spent: Schemas["SpentAnswer"], place: (at: number, step: null) => number): TrackData {
  const shown = Object.keys(CAUSES).filter((cause) => spent.causes[cause]?.some((value) => (value ?? 0) > 0));
  const totals = spent.at.map((_, index) =>
    Object.values(spent.causes).reduce((sum, column) => sum + Math.max(0, column[index] ?? 0), 0),
  );
  const share = (cause: string) => (total: number, index: number): number | null =>
    total > 0 ? Math.max(0, spent.causes[cause]?.[index] ?? 0) / total : null;
  const x = spent.at.map((at) => place(at, null));
  const lines = shown.map((cause) => ({ label: cause, colour: CAUSES[cause] ?? "", values: totals.map(share(cause)) }));
  const last = spent.at.length - 1;
  if (last < 0) return { x, lines, stacked: true };
  // The last bucket is as wide as it lasted: its end is one more point.
  const end = place((spent.at[last] ?? 0) + (spent.seconds[last] ?? 0), null);
  const closed = lines.map((line) => ({ ...line, values: [...line.values, line.values[last] ?? null] }));
  return { ...ascending([...x, end], closed), stacked: true };
}

/** Leaves out what does not ascend: several buckets within one step share a place, and the last one stays. */
function ascending(x: number[], lines: Line[]): { x: number[]; lines: Line[] } {
  const kept = x.map((value, index) => index === x.length - 1 || value < (x[index + 1] ?? 0));
  const only = <T>(values: T[]): T[] => values.filter((_, index) => kept[index]);
  return { x: only(x), lines: lines.map((line) => ({ ...line, values: only(line.values) })) };
}

/** Returns the marks on the axis; a damaged save and an incident are drawn as wrong. */
export function marksOf(
  marks: readonly Schemas["Mark"][],
  place: (at: number, step: number | null) => number,
): Mark[] {
  return marks.flatMap((mark) =>
    mark.at === null
      ? []
      : [
          {
            kind: mark.kind,
            x: place(mark.at, mark.step),
            words: mark.words,
            bad: mark.kind === "incident" ? mark.state !== "merged" : mark.state === "damaged" || mark.state === "failed",
            id: mark.id,
          },
        ],
  );
}

/** Returns the matrix in the axis' unit: a column lasts from the end of the one before to its own. */
export function matrixOf(answer: Schemas["MatrixAnswer"], kind: AxisKind, times: StepTimes): MatrixData {
  const ends = answer.steps.map(([, last], index) => (kind === "step" ? last : (answer.at[index] ?? 0)));
  const [first] = answer.steps;
  const start = kind === "step" ? (first?.[0] ?? 0) - 1 : (times.at[0] ?? ends[0] ?? 0) - 1;
  const edges = ends.length ? [Math.min(start, (ends[0] ?? 0) - 1e-6), ...ends] : [];
  return { rows: answer.rows, edges, steps: answer.steps, seconds: answer.seconds, slowest: answer.slowest };
}

/**
 * Returns a matrix with newer columns behind it: of the base, those that end before the newer ones
 * begin. Rows that differ, as after a change of the number of ranks, do not fit.
 */
export function joinedMatrix(
  base: Schemas["MatrixAnswer"],
  newer: Schemas["MatrixAnswer"] | null,
): Schemas["MatrixAnswer"] {
  const from = newer?.steps[0]?.[0];
  const fits = newer && newer.attempt === base.attempt && newer.clock === base.clock && newer.rows.length === base.rows.length;
  if (!fits || from === undefined) return base;
  const kept = base.steps.filter(([, last]) => last < from).length;
  const joinedRows = <T>(rows: T[][], more: T[][]): T[][] =>
    rows.map((row, index) => [...row.slice(0, kept), ...(more[index] ?? [])]);
  return {
    ...base,
    steps: [...base.steps.slice(0, kept), ...newer.steps],
    at: [...base.at.slice(0, kept), ...newer.at],
    seconds: joinedRows(base.seconds, newer.seconds),
    slowest: joinedRows(base.slowest, newer.slowest),
  };
}
