import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { budgetWords, classesOf, rowsOf, stateSentence, valueWords } from "../src/views/slos/rows";
import { lossesOf, partsOf } from "../src/views/slos/spent";

type Slo = Schemas["SloBudget"];

function sloOf(more: Partial<Slo>): Slo {
  return {
    name: "goodput", state: "ok", target: 0.9, limit: null, time_slices: null, window: "the last 28 days", ratio: 0.95,
    budget_remaining: 0.5, budget: "50% left", burn_rate: 0.5, lost_device_seconds: 50, allowed_device_seconds: 100,
    reason: "", ...more,
  };
}

const lineOf = (job: string, ...slos: Slo[]): Schemas["SlosOfJob"] => ({ job, job_class: "pretraining", slos });

test("the least budget comes first, what is not evaluated last, a missed limit before all", () => {
  const rows = rowsOf([
    lineOf("early", sloOf({ state: "too-early", budget_remaining: null })),
    lineOf("kept", sloOf({})),
    lineOf("spent", sloOf({ state: "exhausted", budget_remaining: -3 })),
    lineOf("limits", sloOf({ limit: "at most 1", state: "ok" }), sloOf({ limit: "at most 1", state: "exhausted" })),
  ]);
  assert.deepEqual(rows.map(({ job, slo }) => `${job} ${slo.state}`), ["limits exhausted", "spent exhausted", "kept ok", "limits ok", "early too-early"]);
});

test("a class's budget is a sum over the device-time of its evaluated jobs", () => {
  const rows = rowsOf([
    lineOf("small", sloOf({ lost_device_seconds: 2, allowed_device_seconds: 1, budget_remaining: -1, state: "exhausted" })),
    lineOf("large", sloOf({ lost_device_seconds: 0, allowed_device_seconds: 99, budget_remaining: 1 })),
    lineOf("early", sloOf({ state: "too-early", budget_remaining: null, lost_device_seconds: 1e6 })),
  ]);
  const [line] = classesOf(rows);
  assert.deepEqual(line, { jobClass: "pretraining", name: "goodput", jobs: 3, evaluated: 2, exhausted: 1, remaining: 0.98 });
  const [unknown] = classesOf(rowsOf([lineOf("early", sloOf({ state: "frozen" }))]));
  assert.equal(unknown?.remaining, null);
});

test("a budget that is not evaluated has no figure", () => {
  const early = sloOf({ state: "too-early", ratio: 0.2, budget: "too early" });
  assert.equal(valueWords(early), "unknown");
  assert.match(stateSentence(early), /^Too early/);
  assert.equal(budgetWords(null), "unknown");
  assert.deepEqual([budgetWords(0.4), budgetWords(-0.6)], ["40% left", "spent 1.6x"]);
  assert.match(stateSentence(sloOf({ state: "exhausted", limit: "at most 3", ratio: 4 })), /^Missed: 4.000, at most 3/);
});

test("what ate a budget is all but productive time, unknown time included", () => {
  const causes = { productive: [6, null], stall: [1, 0], unknown: [null, 3], bubble: [0, 0] };
  const parts = partsOf({ causes } as unknown as Schemas["SpentAnswer"]);
  assert.deepEqual(parts.map(({ cause }) => cause), ["productive", "stall", "unknown"]);
  assert.deepEqual(lossesOf(parts).map(({ cause, share }) => [cause, share]), [["unknown", 0.3], ["stall", 0.1]]);
});
