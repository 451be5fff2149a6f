/** What is compared; all of it is in the address. */
import { computed } from "@preact/signals";
import { go, path, query } from "../../app/place";
import { type CompareAxis, MOST_RUNS } from "./overlay";

/** Metrics that are shown where the address names none. */
export const STANDARD = ["loss", "step_seconds", "tokens_per_second"] as const;
const MOST_METRICS = 8;

/** The chosen runs, metrics, and axis. */
export const compared = computed(() => {
  const values = query.value;
  const metrics = values.getAll("metric").filter(Boolean).slice(0, MOST_METRICS);
  return {
    jobs: [...new Set(values.getAll("job").filter(Boolean))].slice(0, MOST_RUNS),
    metrics: metrics.length ? metrics : [...STANDARD],
    axis: (values.get("axis") === "since" ? "since" : "step") as CompareAxis,
  };
});

/** Sets all values of a parameter that may be repeated. */
export function setAll(name: "job" | "metric", values: readonly string[]): void {
  const next = new URLSearchParams(query.value);
  next.delete(name);
  for (const value of values) next.append(name, value);
  const text = next.toString();
  go(path.value + (text ? `?${text}` : ""), true);
}

/** The path of the comparison of some runs. */
export const comparePath = (jobs: readonly string[]): string =>
  `/compare?${jobs.map((job) => `job=${encodeURIComponent(job)}`).join("&")}`;
