import assert from "node:assert/strict";
import { test } from "node:test";
import { lowerBound, momentOf, roundTicks, stepAt, timeTicks } from "../src/charts/range";

const TIMES = { step: [0, 10, 20], at: [100, 110, 150] };

test("a step has a moment and back, in a straight line between known ones", () => {
  assert.equal(momentOf(TIMES, 15), 130);
  assert.equal(stepAt(TIMES, 130), 15);
  assert.deepEqual([stepAt(TIMES, 50), stepAt(TIMES, 900)], [0, 20], "nothing is known beyond the ends");
});

test("a job with one step has one moment", () => {
  assert.equal(momentOf({ step: [7], at: [50] }, 9), 50);
  assert.equal(stepAt({ step: [], at: [] }, 3), 3);
});

test("ticks are round and few", () => {
  assert.deepEqual(roundTicks({ min: 7_980, max: 8_940 }, 6, true), [8_000, 8_200, 8_400, 8_600, 8_800]);
  assert.deepEqual(roundTicks({ min: 0, max: 2 }, 8, true), [0, 1, 2], "a step is whole");
  assert.ok(timeTicks({ min: 0, max: 3_600 }, 7).every((at) => at % 600 === 0));
});

test("the first value that is not below is found", () => {
  assert.deepEqual([0, 1, 2, 9].map((value) => lowerBound([1, 2, 2, 5], value)), [0, 0, 1, 4]);
});
