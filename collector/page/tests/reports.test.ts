import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { columnsOf, DAY_S, partsOf, periodOf, worstLoss } from "../src/views/reports/days";

const dayOf = (day: number, seconds: Record<string, number>): Schemas["ReportDay"] => ({
  day, seconds, allocated_seconds: Object.values(seconds).reduce((sum, value) => sum + value, 0),
  productive_ratio: null, tokens: null, steps: 0, cost: null,
});

test("a period is whole UTC days up to the end of today", () => {
  assert.deepEqual(periodOf(7, 10 * DAY_S + 5), { from: 4 * DAY_S, until: 11 * DAY_S });
  assert.deepEqual(periodOf(1, 10 * DAY_S), { from: 10 * DAY_S, until: 11 * DAY_S });
});

test("a day without an account is an empty column, and says so", () => {
  const days = [dayOf(0, { productive: 3, stall: 1 }), dayOf(2 * DAY_S, { productive: 2 })];
  const columns = columnsOf({ from: 0, until: 3 * DAY_S, days });
  assert.deepEqual(columns.map(({ parts }) => parts.map(({ share }) => share)), [[0.75, 0.25], [], [0.5]]);
  assert.match(columns[1]?.words ?? "", /1970-01-02: no data/);
  assert.match(columns[0]?.words ?? "", /unknown productive/);
});

test("the greatest loss is not productive time; unknown time may be it", () => {
  assert.equal(worstLoss(dayOf(0, { productive: 6, stall: 1, unknown: 3 })), "unknown, 30.0%");
  assert.equal(worstLoss(dayOf(0, { productive: 6 })), "");
  assert.deepEqual(partsOf(dayOf(0, { stall: 1, productive: 1 })).map(({ cause }) => cause), ["productive", "stall"]);
});
