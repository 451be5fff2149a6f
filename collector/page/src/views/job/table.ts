/** The table of a board's curves. Pure. */
import type { Schemas } from "../../api/types";
import { formatOf, number } from "../../words/quantities";
import { type ChartTable, MOST_ROWS } from "../shared/chart_table";
import { labelOf } from "./tracks";

/** Returns the newest steps with the values of each curve; a value that is not finite says so. */
export function boardTable(curves: readonly Schemas["Series"][]): ChartTable {
  const steps = [...new Set(curves.flatMap((series) => series.step))].sort((one, other) => other - one);
  const columns = curves.map((series) => ({
    series,
    index: new Map(series.step.map((step, position) => [step, position])),
    format: formatOf(series.unit),
  }));
  const momentOfStep = (step: number): number | null => {
    for (const { series, index } of columns) {
      const at = series.at[index.get(step) ?? -1];
      if (at !== undefined) return at;
    }
    return null;
  };
  const rows = steps.slice(0, MOST_ROWS).map((step) => [
    number(step, 0),
    { at: momentOfStep(step) },
    ...columns.map(({ series, index, format }) => {
      const position = index.get(step);
      const value = position === undefined ? undefined : series.mean[position];
      return value === undefined ? "" : value === null ? "not finite" : format(value);
    }),
  ]);
  return { columns: ["Step", "Time", ...curves.map(labelOf)], rows, count: steps.length };
}
