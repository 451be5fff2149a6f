import assert from "node:assert/strict";
import { test } from "node:test";
import { labels } from "../src/charts/axis_labels";

test("labels of ten million steps are whole numbers, and fewer where they are wide", () => {
  const [few, many] = [0, 9_900_000].map((min) => labels("step", { min, max: 10_000_000 }, 220));
  assert.deepEqual(few?.map(({ words }) => words), ["0", "5,000,000", "10,000,000"]);
  assert.equal(many?.at(-1)?.words, "10,000,000");
  assert.equal(labels("step", { min: 0, max: 300 }, 220).length, 4);
});

test("a phone shows two hours of a budget", () => {
  assert.equal(labels("time", { min: 0, max: 8_400 }, 232).length, 3);
});
