import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { aligned, nearest } from "../src/charts/track_data";
import { columnOf } from "../src/charts/matrix_data";
import * as tracks from "../src/views/job/tracks";

type Series = Schemas["Series"];

function seriesOf(values: (number | null)[], more: Partial<Series> = {}): Series {
  const step = values.map((_, index) => index);
  const at = step.map((value) => 100 + value);
  const none = values.map(() => 0);
  return {
    name: "loss", evaluation: "", unit: "", better: "", note: "", attempt: none, step, at,
    mean: values, min: values, max: values, last: values, non_finite: none, ...more,
  };
}

test("a live point of a known step replaces it, and later ones follow", () => {
  const live = tracks.withPoints(seriesOf([5, 4, 3]), [[2, 102.5, 2.5], [3, 103, null]], 0);
  assert.deepEqual(live.step, [0, 1, 2, 3]);
  assert.deepEqual(live.mean, [5, 4, 2.5, null]);
  assert.deepEqual(live.non_finite, [0, 0, 0, 1], "a point that is not finite is no gap without a word");
});

test("unknown values are gaps in a stack and in a band", () => {
  const data = { x: [0, 1], lines: [{ label: "a", colour: "", values: [1, null] }, { label: "b", colour: "", values: [3, 4] }], stacked: true };
  assert.deepEqual(aligned(data), [[0, 1], [4, 4], [1, null]]);
  assert.deepEqual(tracks.windowBand([1, null, 3]), { values: [3, null, 3], low: [1, null, 1], high: [3, null, 3] });
});

test("two series share one x; where one has no value it has a gap", () => {
  const [one, other] = [seriesOf([1, 2]), seriesOf([7], { step: [1], at: [101] })];
  const parts = [one, other].map((series) => tracks.lineOf(series, "", false));
  const data = tracks.joinedLines(parts, (_, step) => step ?? 0);
  assert.deepEqual(data.x, [0, 1]);
  assert.deepEqual(data.lines.map((line) => line.values), [[1, 2], [null, 7]]);
});

test("a smoothed curve begins at its first value and follows", () => {
  const smooth = tracks.smoothed([4, 4, null, 0], 0.5);
  assert.deepEqual(smooth.slice(0, 3), [4, 4, null]);
  assert.ok((smooth[3] ?? 9) < 2);
});

test("device-time is drawn as shares, and its last bucket has a width", () => {
  const spent = { at: [0, 10], seconds: [10, 10], causes: { productive: [3, 0], stall: [1, 0] } };
  const data = tracks.spentTrack({ ...spent, job: "a", state: "running", attempt: 0, as_of: 0 }, (at) => at);
  assert.deepEqual(data.x, [0, 10, 20]);
  assert.deepEqual(data.lines.map((line) => line.values[0]), [0.75, 0.25]);
  assert.equal(data.lines[0]?.values[1], null, "a bucket without any time is unknown");
});

test("a column lasts from the end of the one before", () => {
  const matrix = { rows: [], edges: [-1, 4, 9], steps: [[0, 4], [5, 9]] as [number, number][], seconds: [], slowest: [] };
  assert.deepEqual([-2, -1, 4, 4.5, 9, 10].map((value) => columnOf(matrix, value)), [-1, 0, 0, 1, 1, -1]);
});

test("the value nearest to the pointer is read", () => {
  assert.deepEqual([-5, 1.4, 1.6, 99].map((at) => nearest([0, 1, 2], at)), [0, 1, 2, 2]);
  assert.equal(nearest([], 1), -1);
});

test("newer columns replace those of the same steps, and rows that differ do not fit", () => {
  const about = { job: "a", state: "running", attempt: 0, metric: "self_time", clock: "host", by: "rank", as_of: 0, known_steps: null } as const;
  const rows = [{ first: 0, last: 0, words: "rank 0", nodes: [] }];
  const matrix = (steps: [number, number][], values: (number | null)[]): Schemas["MatrixAnswer"] => ({
    ...about, rows, steps, at: steps.map(([, last]) => last), seconds: [values], slowest: [values.map(() => 0)],
  });
  const base = matrix([[0, 1], [2, 3], [4, 4]], [1, 2, null]);
  const joined = tracks.joinedMatrix(base, matrix([[4, 4], [5, 5]], [3, 4]));
  assert.deepEqual(joined.steps, [[0, 1], [2, 3], [4, 4], [5, 5]]);
  assert.deepEqual(joined.seconds, [[1, 2, 3, 4]]);
  assert.equal(tracks.joinedMatrix(base, { ...matrix([[4, 4]], [3]), rows: [] }), base);
});
