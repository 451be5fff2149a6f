import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { beganAt, firstMoment, isAbout, newestAttempt, referenceOf, referenceText, referenceWords, shifted } from "../src/views/job/comparison";

test("an address names a job, or one of its attempts", () => {
  assert.deepEqual(referenceOf("old"), { job: "old", attempt: null });
  assert.deepEqual(referenceOf("old@3"), { job: "old", attempt: 3 });
  for (const text of ["", "@3", "old@", "old@x", "old@-1", "a@1@2"]) assert.equal(referenceOf(text), null);
  assert.equal(referenceText({ job: "old", attempt: 3 }), "old@3");
  assert.equal(referenceText({ job: "old", attempt: null }), "old");
});

test("an attempt of the same job goes by its number, another job's by both", () => {
  assert.equal(referenceWords("mine", { job: "mine", attempt: 0 }), "attempt 0");
  assert.equal(referenceWords("mine", { job: "old", attempt: 3 }), "old, attempt 3");
  assert.equal(referenceWords("mine", { job: "old", attempt: null }), "old");
});

test("moments move with the beginning, and an unknown one stays unknown", () => {
  const column = [5, 4, 3];
  const series = {
    name: "loss", evaluation: "", unit: "", better: "", note: "", attempt: [0, 1, 1], step: [7, 7, 8], at: [10, 20, null],
    mean: column, min: column, max: column, last: column, non_finite: [0, 0, 0],
  } satisfies Schemas["Series"];
  assert.equal(isAbout({ job: "old", series: [series] }, { job: "old", attempt: 0 }), true);
  assert.equal(isAbout({ job: "old", series: [series] }, { job: "old", attempt: 1 }), false, "that of the choice before");
  assert.deepEqual(shifted([series], 80)[0]?.at, [90, 100, null]);
  assert.equal(firstMoment([series]), 10);
  assert.equal(firstMoment([]), null);
});

test("an unknown beginning is null, and a job's is that of its first attempt", () => {
  const attempts = [{ attempt: 0, began_at: null }, { attempt: 1, began_at: 60 }, { attempt: 2, began_at: 90 }];
  assert.equal(beganAt(attempts, null), 60);
  assert.equal(beganAt(attempts, 2), 90);
  assert.equal(beganAt(attempts, 0), null);
  assert.equal(newestAttempt(attempts), 2);
});
