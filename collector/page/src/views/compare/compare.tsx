/** Two to eight runs beside each other: curves, figures, and what differs in their configuration. */
import { useMemo } from "preact/hooks";
import { type Answer, useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { setQuery } from "../../app/place";
import { useTitle } from "../../app/title";
import { formatOf } from "../../words/quantities";
import { labelOf } from "../job/tracks";
import { type Part, Plot } from "../shared/plot";
import { Choice, NoRuns } from "./choice";
import { type Curve, curveOf, MOST_RUNS, overlay, type RunStyle, spanOf, startOf, styleOf } from "./overlay";
import { compared, setAll } from "./state";
import { Changes, FiguresTable } from "./tables";

type SeriesAnswer = Schemas["SeriesAnswer"];
type Run = Schemas["JobRunAnswer"];
const POINTS = 600;
const EVERY_MS = 15_000;
const PLACES = Array.from({ length: MOST_RUNS }, (_, place) => place);

/** A run with its answers. */
export interface Compared {
  style: RunStyle;
  series: Answer<SeriesAnswer>;
  run: Answer<Run>;
}

/** The view. */
export function Compare() {
  const { jobs, metrics } = compared.value;
  const names = metrics.map((name) => `metric=${encodeURIComponent(name)}`).join("&");
  const base = (job: string | undefined): string | null => (job ? `/v1/jobs/${encodeURIComponent(job)}` : null);
  // As many hooks as there may be runs: their number must not change.
  const series = PLACES.map((place) => useAnswer<SeriesAnswer>(pathOf(base(jobs[place]), `/series?${names}&points=${POINTS}`), { everyMs: EVERY_MS }).value);
  const runs = PLACES.map((place) => useAnswer<Run>(pathOf(base(jobs[place]), "/run"), { everyMs: EVERY_MS }).value);
  const all = jobs.map((job, place) => ({
    style: styleOf(job, place),
    series: series[place] ?? NO_ANSWER,
    run: runs[place] ?? NO_ANSWER,
  }));
  useTitle(jobs.length ? `Compare ${jobs.join(", ")}` : "Compare", null);
  return (
    <main>
      <h1 id="title">Compare</h1>
      <Choice styles={all.map(({ style }) => style)} />
      {jobs.length < 2 && <NoRuns />}
      {jobs.length > 0 && <Shown all={ofJobs(all)} />}
    </main>
  );
}

const NO_ANSWER = { value: null, failure: null, at: 0 };
const pathOf = (base: string | null, rest: string): string | null => (base === null ? null : base + rest);

/** An answer about another job is one from before a run was removed. */
const ofJobs = (all: readonly Compared[]): Compared[] =>
  all.map((one) => ({
    ...one,
    series: one.series.value && one.series.value.job !== one.style.label ? NO_ANSWER : one.series,
    run: one.run.value && one.run.value.job !== one.style.label ? NO_ANSWER : one.run,
  }));

function Shown({ all }: { all: readonly Compared[] }) {
  const failed = all.flatMap(({ style, series, run }) => {
    const failure = series.failure ?? run.failure;
    return failure ? [`${style.label}: ${failure.message}`] : [];
  });
  return (
    <div class="stack">
      {failed.length > 0 && (
        <p class="notice" role="alert">
          {failed.join("; ")}
        </p>
      )}
      <Curves all={all} />
      <FiguresTable all={all} />
      <Changes all={all} />
    </div>
  );
}

function Curves({ all }: { all: readonly Compared[] }) {
  const { metrics, axis } = compared.value;
  const { parts, span, missing } = useMemo(() => partsOf(all, metrics, axis), [...all.map(({ series }) => series.value), metrics, axis]);
  return (
    <section class="panel stack">
      <div class="row tools" role="toolbar" aria-label="Axis and metrics">
        <button type="button" class="chip" aria-pressed={axis === "step"} onClick={() => setQuery({ axis: null })}>
          by step
        </button>
        <button type="button" class="chip" aria-pressed={axis === "since"} onClick={() => setQuery({ axis: "since" })}>
          by time since start
        </button>
        <Metrics all={all} />
      </div>
      {parts.length ? (
        <Plot key={axis} id="curves" about={all.map(({ style }) => style.label).join(", ")} parts={parts} kind={axis} whole={span} />
      ) : (
        <p class="quiet">{all.some(({ series }) => series.value) ? "No curve is known of these runs." : "Loading."}</p>
      )}
      {missing.length > 0 && <p class="quiet small">{missing.join("; ")}.</p>}
    </section>
  );
}

function partsOf(all: readonly Compared[], metrics: readonly string[], axis: "step" | "since") {
  const shown: Curve[] = [];
  const missing: string[] = [];
  const parts = metrics.flatMap((name): Part[] => {
    let unit = "";
    const curves = all.flatMap(({ style, series: { value } }) => {
      const series = value?.series.find((one) => one.name === name && !one.evaluation);
      if (!value) return [];
      if (!series?.step.length) {
        missing.push(`${style.label} has no ${labelOf({ name, evaluation: "" })}`);
        return [];
      }
      unit = series.unit;
      return [{ style, curve: curveOf(series, axis, startOf(value)) }];
    });
    if (!curves.length) return [];
    shown.push(...curves.map(({ curve }) => curve));
    return [{ title: labelOf({ name, evaluation: "" }), data: overlay(curves), format: formatOf(unit), height: 150 }];
  });
  return { parts, span: spanOf(shown), missing };
}

function Metrics({ all }: { all: readonly Compared[] }) {
  const { metrics } = compared.value;
  const known = all.flatMap(({ series }) => series.value?.available ?? []).filter(({ evaluation }) => !evaluation);
  const more = [...new Set(known.map(({ name }) => name))].filter((name) => !metrics.includes(name)).sort();
  return (
    <>
      {metrics.map((name) => (
        <button key={name} type="button" class="chip" aria-pressed="true" onClick={() => setAll("metric", metrics.filter((other) => other !== name))}>
          {labelOf({ name, evaluation: "" })} ✕
        </button>
      ))}
      {more.length > 0 && (
        <select class="chip" aria-label="Metric" value="" onChange={(event) => setAll("metric", [...metrics, event.currentTarget.value])}>
          <option value="">+ metric</option>
          {more.map((name) => (
            <option key={name} value={name}>
              {labelOf({ name, evaluation: "" })}
            </option>
          ))}
        </select>
      )}
    </>
  );
}
