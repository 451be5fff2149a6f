/** Curves of several runs over one axis. Pure. */
import type { Schemas } from "../../api/types";
import { lowerBound, type Span } from "../../charts/range";
import type { Line, TrackData } from "../../charts/track_data";

type Series = Schemas["Series"];

/** What the axis counts: steps, or seconds since a run's first step. */
export type CompareAxis = "step" | "since";

/** A curve's points, x ascending; a null y is a value that is not finite. */
export interface Curve {
  x: number[];
  y: (number | null)[];
}

/** A run's line: its name, and how it is drawn in all tracks. */
export interface RunStyle {
  label: string;
  colour: string;
  dash: readonly number[];
}

/** The most runs that are compared: more colours are not told apart. */
export const MOST_RUNS = 8;

const DASHES: readonly (readonly number[])[] = [[], [9, 4], [2, 3], [9, 3, 2, 3], [14, 4], [5, 5], [1, 4], [9, 2, 2, 2, 2, 2]];

/** Returns how the run at a place is drawn. */
export const styleOf = (label: string, place: number): RunStyle => ({
  label,
  colour: `--run-${(place % MOST_RUNS) + 1}`,
  dash: DASHES[place % MOST_RUNS] ?? [],
});

/** Returns the first known moment in an answer's series; null without one. */
export function startOf(answer: Schemas["SeriesAnswer"]): number | null {
  const moments = answer.series.flatMap((series) => series.at.filter((at): at is number => at !== null).slice(0, 1));
  return moments.length ? Math.min(...moments) : null;
}

/** Returns a series as a curve; of a step that was done again the newest value stays. */
export function curveOf(series: Series, axis: CompareAxis, start: number | null): Curve {
  const newest = new Map<number, number | null>();
  series.step.forEach((step, index) => {
    const at = series.at[index] ?? null;
    const x = axis === "step" ? step : at === null || start === null ? null : at - start;
    if (x !== null) newest.set(x, series.mean[index] ?? null);
  });
  const points = [...newest].sort(([one], [other]) => one - other);
  return { x: points.map(([x]) => x), y: points.map(([, y]) => y) };
}

/** Returns a curve's value at a place, in a straight line between known points; null beyond its ends. */
export function valueAt({ x, y }: Curve, place: number): number | null {
  const index = lowerBound(x, place);
  if (x[index] === place) return y[index] ?? null;
  if (index === 0 || index === x.length) return null;
  const [x0 = 0, x1 = 0, y0 = null, y1 = null] = [x[index - 1], x[index], y[index - 1], y[index]];
  return y0 === null || y1 === null ? null : y0 + ((place - x0) / (x1 - x0)) * (y1 - y0);
}

/** Returns lines of several curves over one axis: the places of all of them. */
export function overlay(curves: readonly { style: RunStyle; curve: Curve }[]): TrackData {
  const x = [...new Set(curves.flatMap(({ curve }) => curve.x))].sort((one, other) => one - other);
  const lines = curves.map(
    ({ style, curve }): Line => ({ ...style, values: x.map((place) => valueAt(curve, place)) }),
  );
  return { x, lines };
}

/** Returns the span that holds all curves. */
export function spanOf(curves: readonly Curve[]): Span {
  const ends = curves.flatMap(({ x }) => [x[0], x.at(-1)]).filter((value): value is number => value !== undefined);
  const [min, max] = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
  return max > min ? { min, max } : { min: min - 0.5, max: min + 0.5 };
}

/** Returns the last step that all of the curves reach; null if one is empty. */
export function commonStep(curves: readonly Curve[]): number | null {
  const last = curves.map(({ x }) => x.at(-1));
  return !last.length || last.includes(undefined) ? null : Math.min(...(last as number[]));
}
