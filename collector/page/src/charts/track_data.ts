/** What a track draws, and the columns that uPlot takes. Pure. */

/** A line; `low` and `high` add a band around it. Null is unknown and leaves a gap. */
export interface Line {
  label: string;
  /** A token such as "--data", or a colour. */
  colour: string;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  width?: number;
  dashed?: boolean;
  /** Lengths of strokes and gaps, in pixels: a line that is told apart without its colour. */
  dash?: readonly number[];
}

/** What a track shows; all lines share `x`, which ascends, in the axis' unit. */
export interface TrackData {
  x: number[];
  lines: Line[];
  /** Lines lie on top of one another and are filled, the last one on top. */
  stacked?: boolean;
}

/** Returns the index whose x is nearest; -1 without any. */
export function nearest(x: readonly number[], at: number): number {
  let best = -1;
  let distance = Number.POSITIVE_INFINITY;
  let low = 0;
  let high = x.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const difference = (x[middle] ?? 0) - at;
    if (Math.abs(difference) < distance) {
      distance = Math.abs(difference);
      best = middle;
    }
    if (difference < 0) low = middle + 1;
    else high = middle - 1;
  }
  return best;
}

/** The axis, then one column a curve that is drawn. */
export type Columns = [number[], ...(number | null)[][]];

/**
 * Returns the columns that uPlot draws. In a stack each column is the sum of its own and those below:
 * lines [1, 2] and [3, 4] over x [0, 1] give [[0, 1], [4, 6], [1, 2]], the highest first, since a
 * later one is painted over an earlier one.
 */
export function aligned(data: TrackData): Columns {
  if (!data.stacked) {
    const columns = data.lines.flatMap((line) =>
      line.low && line.high ? [line.high, line.low, line.values] : [line.values],
    );
    return [data.x, ...columns];
  }
  const sums: (number | null)[][] = [];
  for (const line of data.lines) {
    const below = sums.at(-1);
    sums.push(line.values.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0))));
  }
  return [data.x, ...sums.reverse()];
}
