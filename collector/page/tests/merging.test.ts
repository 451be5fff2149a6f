import assert from "node:assert/strict";
import { test } from "node:test";
import { merged, renewed } from "../src/api/merging";
import type { Schemas } from "../src/api/types";

type Line = Schemas["JobLineAnswer"];

const line = (job: string, more: Partial<Line> = {}): Line =>
  ({ job, as_of: 10, step: 1, state: "running", world_size: 8, ...more }) as Line;
const event = (name: string, data: object) => ({ id: "", event: name, data: JSON.stringify(data) });

test("an event changes the fields that it has", () => {
  const [first, second] = merged([line("a"), line("b")], [event("job", { job: "b", as_of: 11, step: 2 })]);
  assert.deepEqual([first?.step, second?.step, second?.world_size, second?.as_of], [1, 2, 8, 11]);
});

test("an event that is older than the list changes nothing", () => {
  assert.equal(merged([line("a", { step: 5 })], [event("job", { job: "a", as_of: 9, step: 4 })])[0]?.step, 5);
});

test("a new job comes first, and one that is gone leaves", () => {
  const events = [event("job", line("c")), event("gone", { job: "a" }), event("job", { job: "d", as_of: 12, step: 2 })];
  const names = merged([line("a"), line("b")], events).map(({ job }) => job);
  assert.deepEqual(names, ["c", "b"], "fields of a job that is not known are no line");
});

test("a line that was stale is fresh again", () => {
  const stale = line("a", { state: "stale", stale: { seconds: 20, state: "running", reason: "old" } });
  const [fresh] = merged([stale], [event("job", { job: "a", as_of: 30, state: "running", stale: null })]);
  assert.equal(fresh?.state, "running");
  assert.ok(fresh && !("stale" in fresh));
});

test("an answer that was under way longer than an event takes nothing back", () => {
  const before = [line("a", { as_of: 12, step: 3 }), line("gone")];
  const jobs = renewed(before, [line("a", { as_of: 11, step: 2 }), line("b")]);
  assert.deepEqual(jobs.map(({ job, step }) => [job, step]), [["a", 3], ["b", 1]]);
});
