import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, deviceTime, measure, percent, seconds, short, span, UNKNOWN } from "../src/words/quantities";

test("a duration has the unit that people say", () => {
  const words = [0, 0.0041, 0.825, 1.06, 119.4, 744, 11_520].map(seconds);
  assert.deepEqual(words, ["0 s", "4.1 ms", "825 ms", "1.06 s", "119.40 s", "12.4 min", "3.2 h"]);
});

test("unknown is a word and no number", () => {
  for (const say of [seconds, span, bytes, deviceTime, short, percent]) assert.equal(say(null), UNKNOWN);
  assert.equal(measure(undefined, "seconds"), UNKNOWN);
});

test("a count is short, and an exact small one is whole", () => {
  assert.deepEqual([8_940, 1_124_000, 0.1234567, 2.1e12].map(short), ["8,940", "1.12 M", "0.1235", "2.1 T"]);
});

test("evidence has the unit of its first part in words", () => {
  assert.equal(measure(0.331, "seconds_per_step"), "331 ms per step");
  assert.equal(measure(1, "ranks"), "1 rank");
  assert.equal(measure(0.25, "ratio"), "25%");
  assert.equal(measure(2_048, "bytes"), "2.0 kB");
});
