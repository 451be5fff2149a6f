import assert from "node:assert/strict";
import { test } from "node:test";
import { scaleOf, scaleWords, shareOf } from "../src/charts/heat";
import { seconds } from "../src/words/quantities";

test("neither a start-up nor one long step takes the whole scale", () => {
  const [startUp, usual, jitter, long] = [3.0, 0.11, 0.125, 25.0];
  const lines = [0, 1].map(() => [startUp, ...Array.from({ length: 100 }, (_, index) => (index % 2 ? jitter : usual))]);
  (lines[1] ?? [])[60] = long;
  const scale = scaleOf(lines, 1);
  assert.deepEqual([0.002, 0.11, 0.125, 25.0, 60.0].map((value) => shareOf(scale, value)), [0, 0, 0.5, 1, 1]);
  assert.equal(scaleWords(scale, seconds), "faint 110 ms, medium 125 ms, strong 25.00 s");
});

test("cells without a known value have a scale of zero", () => {
  assert.equal(scaleWords(scaleOf([[null]], 0), seconds), "faint 0 s, strong 0 s");
});
