/** Which curves of a job share a track, and those that it is compared with. Pure. */
import type { Schemas } from "../../api/types";
import type { Line } from "../../charts/track_data";
import { labelOf, lineOf, smoothed } from "./tracks";

type Series = Schemas["Series"];

const COLOURS = ["--data", "--data-2", "--warn", "--unsure", "--quiet"] as const;
const SMOOTHING = 0.9;

/** The curves of one track. */
export interface Group {
  title: string;
  unit: string;
  parts: { x: Series; line: Line }[];
}

/** Returns tracks of curves: one a metric; evaluations of the same name, and curves of `others`, join it. */
export function grouped(curves: readonly Series[], others: readonly Series[], compared: string, smooth: boolean): Group[] {
  const groups = new Map<string, Group>();
  const add = (series: Series, label: string | null): void => {
    const title = labelOf({ name: series.name, evaluation: "" });
    const group = groups.get(title) ?? { title, unit: series.unit, parts: [] };
    const colour = COLOURS[group.parts.length % COLOURS.length] ?? "--data";
    const part = lineOf(series, colour, series.name === "step_seconds" && label === null);
    if (label !== null) part.line = { label, colour, values: part.line.values };
    if (smooth && series.name === "loss" && !series.evaluation) {
      const raw = { ...part.line, label: `${part.line.label} raw`, colour: "--band", width: 1 };
      group.parts.push({ x: part.x, line: raw });
      part.line = { label: part.line.label, colour, values: smoothed(part.line.values, SMOOTHING) };
    }
    group.parts.push(part);
    groups.set(title, group);
  };
  for (const series of curves) if (series.step.length) add(series, null);
  for (const series of others) {
    const isShown = groups.has(labelOf({ name: series.name, evaluation: "" }));
    if (isShown && !series.evaluation && series.step.length) add(series, `${labelOf(series)} of ${compared}`);
  }
  return [...groups.values()];
}
