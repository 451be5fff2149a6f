import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { dotsOf, numberOf, numericSettings, prefixesOf, ranked, scaleOf, spentOn } from "../src/views/sweeps/trials";

type Trial = Schemas["Trial"];

function trialOf(job: string, least: number | null, more: Partial<Trial> = {}, better: "" | "higher" = ""): Trial {
  const value = { name: "loss", evaluation: "", unit: "", better, least, greatest: least, last: least, non_finite: 0 };
  return { job, state: "finished", step: 9, began_at: 0, device_seconds: 10, cost: null, settings: {}, value, ...more };
}

test("the best trial comes first, by the metric's direction, and one without a value last", () => {
  const names = (trials: Trial[]): string[] => ranked(trials).map(({ job }) => job);
  assert.deepEqual(names([trialOf("a", 3), trialOf("b", null), trialOf("c", 1)]), ["c", "a", "b"]);
  assert.deepEqual(names([trialOf("a", 3, {}, "higher"), trialOf("c", 1, {}, "higher")]), ["a", "c"]);
  assert.deepEqual(names([trialOf("a", 3, { value: null }), trialOf("c", 1)]), ["c", "a"]);
});

test("a setting is a number or it is not drawn", () => {
  assert.deepEqual(["3e-4", " 7 ", "", "adamw", "NaN", "Infinity"].map(numberOf), [0.0003, 7, null, null, null, null]);
  const trials = [trialOf("a", 1, { settings: { lr: "0.1", name: "x" } }), trialOf("b", 2, { settings: { lr: "0.2" } }), trialOf("c", null)];
  assert.deepEqual(numericSettings({ settings: ["name", "lr"], trials }), ["lr"]);
  assert.deepEqual(dotsOf(trials, "lr").map(({ x, y }) => [x, y]), [[0.1, 1], [0.2, 2]]);
});

test("an axis over decades is logarithmic, and one value has a place inside it", () => {
  const scale = scaleOf([1e-5, 1e-1], 9);
  assert.deepEqual(scale.ticks.map((value) => Math.round(Math.log10(value))), [-5, -4, -3, -2, -1]);
  assert.ok(Math.abs(scale.place(1e-3) - 0.5) < 1e-9);
  assert.ok(Math.abs(scaleOf([4], 5).place(4) - 0.5) < 1e-9);
});

test("beginnings that three names share are offered", () => {
  assert.deepEqual(prefixesOf(["lr-1", "lr-2", "lr-3", "a-1", "a-2", "alone"]), [{ prefix: "lr-", count: 3 }]);
});

test("a price of all is unknown if that of one trial is", () => {
  const priced = trialOf("a", 1, { cost: { money: 2, currency: "EUR", without_rate: 0, tokens: 0 } });
  assert.equal(spentOn([priced, priced]).money, 4);
  assert.equal(spentOn([priced, trialOf("b", 1)]).money, null);
});
