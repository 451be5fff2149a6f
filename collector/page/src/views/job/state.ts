/** What the reader chose on a job's page; all of it is in the address. */
import { computed } from "@preact/signals";
import { query, setQuery } from "../../app/place";
import type { AxisKind } from "../../charts/range";

/** Ranges by name, in seconds before the newest data; null is everything. */
export const RANGES: Readonly<Record<string, number | null>> = {
  "15 min": 900,
  "1 h": 3_600,
  "6 h": 21_600,
  "24 h": 86_400,
  all: null,
};
const DEFAULT_RANGE = "1 h";
const STANDARD = ["loss", "step_seconds", "tokens_per_second"] as const;

/** The chosen parts of the page. */
export const chosen = computed(() => {
  const values = query.value;
  const range = values.get("range") ?? DEFAULT_RANGE;
  return {
    axis: (values.get("axis") === "time" ? "time" : "step") as AxisKind,
    range: range in RANGES ? range : DEFAULT_RANGE,
    zoom: zoomOf(values.get("from"), values.get("to")),
    metrics: values.getAll("metric").slice(0, MOST_METRICS),
    smooth: values.get("smooth") === "1",
    logarithmic: values.get("log") === "1",
    matrix: values.get("matrix") ?? "self_time",
    by: values.get("by"),
    compare: values.get("compare") ?? "",
    ranks: ranksOf(values.get("ranks")),
  };
});

const MOST_METRICS = 8;

function zoomOf(from: string | null, to: string | null): [number, number] | null {
  const ends = [Number(from), Number(to)] as [number, number];
  return from && to && ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
}

function ranksOf(text: string | null): [number, number] | null {
  const match = /^(\d{1,7})-(\d{1,7})$/.exec(text ?? "");
  return match ? [Number(match[1]), Number(match[2])] : null;
}

/** Shows a range of moments; null shows the named range again. */
export function zoom(range: [number, number] | null): void {
  setQuery({ from: range ? range[0].toFixed(3) : null, to: range ? range[1].toFixed(3) : null });
}

/** Shows a named range, up to the newest data. */
export const takeRange = (range: string): void => setQuery({ range, from: null, to: null });

/** The path of the curves: the standard metrics and the chosen ones. */
export function seriesPath(job: string, metrics: readonly string[], range: [number, number] | null, attempt: number | null = null): string {
  const names = [...STANDARD, "mfu", ...metrics].map((name) => `metric=${encodeURIComponent(name)}`);
  return `/v1/jobs/${encodeURIComponent(job)}/series?${names.join("&")}${rangeQuery(range, "&")}${attempt === null ? "" : `&attempt=${attempt}`}`;
}

/** The parameters of a range, after `start`. */
export const rangeQuery = (range: [number, number] | null, start: string): string =>
  range ? `${start}from=${range[0]}&to=${range[1]}` : "";
