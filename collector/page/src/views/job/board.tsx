/** The picture of a job: tracks on one axis, and under them ranks by step. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { changes, useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { Axis } from "../../charts/axis";
import type { Mark } from "../../charts/frame";
import { scaleOf, scaleWords } from "../../charts/heat";
import { Matrix } from "../../charts/matrix";
import type { Cell } from "../../charts/matrix_data";
import { type AxisKind, momentOf, type Span, stepAt } from "../../charts/range";
import { type TrackProps, Values } from "../../charts/track";
import { formatOf, percent, seconds } from "../../words/quantities";
import { TableBehind } from "../shared/behind";
import { Chart } from "../shared/chart";
import { type Comparison, useComparison } from "./compared";
import { grouped } from "./groups";
import { type LivePoints, withLive } from "./points";
import { chosen, RANGES, rangeQuery, seriesPath, zoom } from "./state";
import { boardTable } from "./table";
import * as tracks from "./tracks";

/** What the board shows, for the picture and the drawer. */
export interface BoardProps {
  job: string;
  attempts: readonly Schemas["Attempt"][];
  newest: number | null;
  live: ReadonlySignal<LivePoints>;
  onCell: (rank: number, steps: [number, number], at: number | null) => void;
}

/** Named ranges move on by this part of their length: the path of a request stays for a while. */
const RANGE_PARTS = 30;

/** Returns the moments to ask for. */
export function askedRange(newest: number | null): [number, number] | null {
  const { zoom: exact, range } = chosen.value;
  if (exact) return exact;
  const length = RANGES[range] ?? null;
  if (length === null || newest === null) return null;
  const part = length / RANGE_PARTS;
  return [Math.floor((newest - length) / part) * part, 4e9];
}

/** All answers that the board draws. */
export function useBoard(job: string, newest: number | null) {
  const range = askedRange(newest);
  const base = `/v1/jobs/${encodeURIComponent(job)}`;
  const topic = `job:${job}`;
  const { metrics, zoom: exact } = chosen.value;
  // Live events bring the points of single steps; longer buckets are asked for again.
  const bySteps = useRef(true);
  const series = useAnswer<Schemas["SeriesAnswer"]>(seriesPath(job, metrics, range), {
    topic,
    concerns: (event, data) => !bySteps.current || changes("series")(event, data),
    leastMs: 5_000,
  });
  bySteps.current = (series.value.value?.resolution ?? "step") === "step";
  const marks = useAnswer<Schemas["MarksAnswer"]>(`${base}/marks${rangeQuery(range, "?")}`, {
    topic,
    concerns: changes("marks", "summary"),
  });
  const spent = useAnswer<Schemas["SpentAnswer"]>(`${base}/spent${rangeQuery(range, "?")}`, { topic, leastMs: 30_000 });
  const cells = useMatrix(job, zoomedSteps(exact, series.value.value), exact ? null : range);
  return { series, marks, spent, cells };
}

/** Time between two requests for all cells, and for those of the newest steps: few bytes a minute. */
const ALL_CELLS_MS = 300_000;
const NEW_CELLS_MS = 5_000;
/** Where rows are many a column is large: at a step a second 64 rows of twenty columns are 8 kB. */
const MANY_ROWS = 32;
const MANY_NEW_CELLS_MS = 20_000;
/** The newest steps are those since a step that moves on at most so often. */
const NEWEST_MS = 20_000;
/** Steps at the end that are asked for again: ranks may have been late. */
const LATE_STEPS = 2;

/** Returns the chosen matrix: a window of steps, or all since a range begins, with the newest steps behind it. */
function useMatrix(
  job: string,
  steps: [number, number] | null,
  range: [number, number] | null,
): Schemas["MatrixAnswer"] | null {
  const { matrix, by, ranks } = chosen.value;
  const rankWindow = ranks ? `&first=${ranks[0]}&last=${ranks[1]}` : "";
  const path = `/v1/jobs/${encodeURIComponent(job)}/matrix?metric=${matrix}&rows=64&columns=256${by ? `&by=${by}` : ""}${rankWindow}`;
  const topic = `job:${job}`;
  const since = range ? `&from=${range[0]}` : "";
  const window = steps ? `&from_step=${Math.floor(steps[0])}&to_step=${Math.ceil(steps[1])}` : since;
  const base = useAnswer<Schemas["MatrixAnswer"]>(path + window, { topic, leastMs: steps ? NEW_CELLS_MS : ALL_CELLS_MS }).value.value;
  const kept = useRef<Kept>({ base: null, joined: null, since: 0, at: 0 });
  const from = newestSince(kept.current, base);
  const newerPath = steps || from === null ? null : `${path}&from_step=${from}`;
  const leastMs = (base?.rows.length ?? 0) < MANY_ROWS ? NEW_CELLS_MS : MANY_NEW_CELLS_MS;
  const newer = useAnswer<Schemas["MatrixAnswer"]>(newerPath, { topic, leastMs }).value.value;
  return useMemo(() => {
    const { joined } = kept.current;
    kept.current.joined = joined && tracks.joinedMatrix(joined, newer);
    return kept.current.joined;
  }, [base, newer]);
}

/** All cells so far; `since` is the step from which newer ones are asked for, since the moment `at`. */
interface Kept {
  base: Schemas["MatrixAnswer"] | null;
  joined: Schemas["MatrixAnswer"] | null;
  since: number;
  at: number;
}

/** Begins anew with another base; returns the step from which cells are asked for, null without cells. */
function newestSince(kept: Kept, base: Schemas["MatrixAnswer"] | null): number | null {
  const isOther = kept.base !== base;
  if (isOther) Object.assign(kept, { base, joined: base });
  const last = kept.joined?.steps.at(-1)?.[1];
  if (last === undefined) return null;
  if (isOther || Date.now() - kept.at > NEWEST_MS) Object.assign(kept, { since: Math.max(0, last - LATE_STEPS), at: Date.now() });
  return kept.since;
}

/** Returns the steps in a range of moments; null without one. */
function zoomedSteps(range: [number, number] | null, series: Schemas["SeriesAnswer"] | null): [number, number] | null {
  if (!range || !series) return null;
  const times = tracks.stepTimes(series.series);
  return times.step.length ? [Math.max(0, stepAt(times, range[0])), Math.max(0, stepAt(times, range[1]))] : null;
}

/** The board. */
export function Board({ job, attempts, newest, live, onCell }: BoardProps) {
  const answers = useBoard(job, newest);
  const { series } = answers;
  const comparison = useComparison(job, attempts);
  const element = useRef<HTMLDivElement>(null);
  const width = useWidth(element);
  const { value, failure } = series.value;
  return (
    <div ref={element} class={failure ? "board outdated" : "board"}>
      {value === null && <p class="empty">{failure ? failure.message : "Loading."}</p>}
      {value !== null && width.value > 0 && (
        <Drawn {...answers} job={job} newest={newest} live={live} onCell={onCell} width={width.value} answer={value} comparison={comparison} />
      )}
    </div>
  );
}

function useWidth(element: { current: HTMLDivElement | null }): { value: number } {
  const width = useSignal(0);
  useEffect(() => {
    const measured = element.current;
    if (!measured) return;
    const follow = new ResizeObserver(() => {
      width.value = measured.clientWidth;
    });
    follow.observe(measured);
    return () => follow.disconnect();
  }, [element.current === null]);
  return width;
}

type Answers = ReturnType<typeof useBoard>;
type DrawnProps = Answers & Omit<BoardProps, "attempts"> & { width: number; answer: Schemas["SeriesAnswer"]; comparison: Comparison };

function Drawn({ job, marks, spent, cells, comparison, live, answer, newest, width, onCell }: DrawnProps) {
  const { axis, zoom: exact, range, smooth, logarithmic } = chosen.value;
  const pointer = useSignal<number | null>(null);
  const hovered = useSignal<Cell | null>(null);
  const curves = useMemo(() => withLive(answer, live.value), [answer, live.value]);
  const times = useMemo(() => tracks.stepTimes(curves), [curves]);
  const place = tracks.placer(axis, times);
  const length = RANGES[range] ?? null;
  const newestAt = Math.max(times.at.at(-1) ?? 0, newest ?? 0);
  const shownRange: [number, number] | null = exact ?? (length === null ? null : [newestAt - length, newestAt]);
  const span = clippedTo(tracks.spanOf(axis, times, null), tracks.spanOf(axis, times, shownRange), exact !== null);
  const drawnMarks = useMemo(
    () => tracks.marksOf(marks.value.value?.marks ?? [], place),
    [marks.value.value, axis, times],
  );
  const zoomTo = (next: Span | null): void => {
    if (next === null) zoom(null);
    else if (axis === "time") zoom([next.min, next.max]);
    else zoom([momentOf(times, next.min), momentOf(times, next.max)]);
  };
  const groups = useMemo(
    () => grouped(curves, comparison.series, comparison.words, smooth),
    [curves, comparison.series, comparison.words, smooth],
  );
  const shared = { span, marks: drawnMarks, pointer, onZoom: zoomTo };
  const charted = { ...shared, kind: axis, about: job };
  return (
    <>
      {groups.map(({ title, unit, parts }) => (
        <Chart
          key={title}
          title={title}
          data={tracks.joinedLines(parts, place)}
          format={formatOf(unit)}
          logarithmic={logarithmic && title === "loss"}
          {...charted}
        />
      ))}
      {spent.value.value && spent.value.value.at.length > 0 && (
        <SpentTrack spent={spent.value.value} place={place} {...charted} />
      )}
      {cells && (
        <Cells answer={cells} times={times} hovered={hovered} onCell={onCell} {...shared} />
      )}
      <Axis kind={axis} span={span} marks={drawnMarks} width={width} />
      <TableBehind title="Table of these curves" table={() => boardTable(curves)} />
    </>
  );
}

/** A named range that is longer than the run ends where the data does. */
function clippedTo(all: Span, shown: Span, isExact: boolean): Span {
  return isExact ? shown : { min: Math.max(all.min, Math.min(shown.min, all.max)), max: Math.max(all.max, shown.max) };
}

interface Shared {
  span: Span;
  marks: readonly Mark[];
  pointer: TrackProps["pointer"];
  onZoom: (span: Span | null) => void;
}

function SpentTrack({
  spent,
  place,
  ...shared
}: Shared & { kind: AxisKind; about: string; spent: Schemas["SpentAnswer"]; place: (at: number, step: null) => number }) {
  const data = tracks.spentTrack(spent, place);
  return (
    <>
      <Chart title="device-time" data={data} format={(value) => percent(value, 0)} fixed={[0, 1]} {...shared} />
      <p class="legend small">
        <Values data={data} pointer={shared.pointer} format={(value) => percent(value, 0)} />
      </p>
    </>
  );
}

function Cells({
  answer,
  times,
  hovered,
  onCell,
  ...shared
}: Shared & {
  answer: Schemas["MatrixAnswer"];
  times: Parameters<typeof tracks.matrixOf>[2];
  hovered: Parameters<typeof Matrix>[0]["hovered"];
  onCell: BoardProps["onCell"];
}) {
  const { axis } = chosen.value;
  const data = useMemo(() => tracks.matrixOf(answer, axis, times), [answer, axis, times]);
  // The first step of an attempt starts up: it does not set the scale.
  const skipped = data.steps.length > 1 && data.steps[0]?.[0] === 0 ? 1 : 0;
  const scale = useMemo(() => scaleOf(data.seconds, skipped), [data]);
  const what = `${answer.metric.replaceAll("_", " ")} by ${answer.by}, timed on the ${answer.clock}`;
  const legend = `${what}; ${scaleWords(scale, seconds)}; hatched: unknown`;
  const words = hovered.value ? cellWords(answer, hovered.value) : legend;
  if (!data.steps.length) return <p class="quiet">No step has been received yet.</p>;
  const open = ({ row, column }: Cell): void => {
    const rank = answer.slowest[row]?.[column] ?? answer.rows[row]?.first ?? 0;
    onCell(rank, answer.steps[column] ?? [0, 0], answer.at[column] ?? null);
  };
  return (
    <div class="cells">
      <p class="small quiet" id="cell" aria-live="off">
        {words}
      </p>
      <Matrix
        data={data}
        hovered={hovered}
        onCell={open}
        label={`${what}; arrow keys read a cell, Enter opens it`}
        scale={scale}
        {...shared}
      />
    </div>
  );
}

/** Returns a cell in words: "rank 2, step 41: 650 ms". */
export function cellWords(answer: Schemas["MatrixAnswer"], cell: Cell): string {
  const steps = answer.steps[cell.column];
  const row = answer.rows[cell.row];
  if (!steps || !row) return "";
  const value = answer.seconds[cell.row]?.[cell.column] ?? null;
  const slowest = answer.slowest[cell.row]?.[cell.column] ?? null;
  const range = steps[0] === steps[1] ? `step ${steps[0]}` : `steps ${steps[0]} to ${steps[1]}`;
  const most = row.first !== row.last && slowest !== null ? `, most by rank ${slowest}` : "";
  return `${row.words}, ${range}: ${seconds(value)}${most}`;
}
