/** The cells of a matrix. Pure. */
import { lowerBound } from "./range";

/** Cells: one row a bin of ranks, one column a bin of steps; null is unknown. */
export interface MatrixData {
  rows: { first: number; last: number; words: string }[];
  /** Ends of the columns in the axis' unit, ascending: column i covers edges[i] to edges[i + 1]. */
  edges: number[];
  steps: [number, number][];
  seconds: (number | null)[][];
  slowest: (number | null)[][];
}

/** A cell by row and column. */
export interface Cell {
  row: number;
  column: number;
}

/** Returns the column at a value of the axis; -1 where no step is known. */
export function columnOf(data: MatrixData, value: number): number {
  const column = lowerBound(data.edges, value) - 1;
  if (value === data.edges[0]) return data.steps.length ? 0 : -1;
  return column >= 0 && column < data.steps.length ? column : -1;
}
