import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { spanLabel } from "../src/charts/range";
import { changesOf, figuresOf } from "../src/views/compare/figures";
import { commonStep, curveOf, overlay, styleOf, valueAt } from "../src/views/compare/overlay";

type Series = Schemas["Series"];

const seriesOf = (step: number[], mean: (number | null)[], at: (number | null)[] = step.map((value) => 100 + value)): Series =>
  ({ name: "loss", evaluation: "", unit: "", step, at, mean }) as Series;

test("of a step that was done again the newest value stays, and steps ascend", () => {
  const curve = curveOf(seriesOf([0, 1, 2, 1, 2], [5, 4, 3, 3.5, 2.5]), "step", null);
  assert.deepEqual(curve, { x: [0, 1, 2], y: [5, 3.5, 2.5] });
  const since = curveOf(seriesOf([0, 1, 2], [5, 4, 3], [100, null, 104]), "since", 100);
  assert.deepEqual(since, { x: [0, 4], y: [5, 3] }, "a step without a moment has no place in time");
});

test("curves share the places of all, and none goes on beyond its ends", () => {
  const curves = [seriesOf([0, 10], [0, 10]), seriesOf([5, 15], [7, null])].map((series, place) => ({
    style: styleOf(`run ${place}`, place),
    curve: curveOf(series, "step", null),
  }));
  const data = overlay(curves);
  assert.deepEqual(data.x, [0, 5, 10, 15]);
  assert.deepEqual(data.lines.map(({ values }) => values), [[0, 5, 10, null], [null, 7, null, null]]);
  assert.notDeepEqual(data.lines[0]?.dash, data.lines[1]?.dash, "lines differ without their colours");
});

test("the loss is compared at the last step that all runs have", () => {
  const curves = [curveOf(seriesOf([0, 100], [5, 1]), "step", null), curveOf(seriesOf([0, 40], [6, 2]), "step", null)];
  const step = commonStep(curves);
  assert.equal(step, 40);
  assert.deepEqual(curves.map((curve) => valueAt(curve, step ?? 0)), [3.4, 2]);
  assert.equal(commonStep([{ x: [], y: [] }]), null);
});

test("figures of a run without a step are unknown", () => {
  const run = { blocks: [], device_seconds: {}, incidents: {} } as unknown as Schemas["JobRunAnswer"];
  assert.deepEqual(figuresOf(run), { stepSeconds: null, tokensPerSecond: null, goodput: null, deviceSeconds: 0, incidents: 0 });
});

test("only settings that are not the same are listed; a missing one is no value", () => {
  const { changes, equal } = changesOf([
    { facts: { lr: "0.1", model: "7b" }, world_size: 8 },
    { facts: { model: "7b", seed: "1" }, world_size: 16 },
  ]);
  assert.deepEqual(changes, [
    { name: "lr", values: ["0.1", null] },
    { name: "ranks", values: ["8", "16"] },
    { name: "seed", values: [null, "1"] },
  ]);
  assert.equal(equal, 1);
});

test("spans on an axis are said in the unit of its length", () => {
  assert.equal(spanLabel(320, { min: 0, max: 600 }), "5:20");
  assert.equal(spanLabel(11_100, { min: 0, max: 20_000 }), "3:05 h");
  assert.equal(spanLabel(86_400, { min: 0, max: 900_000 }), "1 d");
});
