import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schemas } from "../src/api/types";
import { dataOf } from "../src/views/incident/curve_data";
import { actsOn } from "../src/views/shared/acts";
import { matrixQuery, rankLines } from "../src/views/incident/rank_data";
import { costAfter, historyOf, metricOf, rangeOf } from "../src/views/incident/story";

type Incident = Schemas["IncidentAnswer"];
const OPEN = {
  state: "open",
  kind: "straggler",
  began_at: 1000,
  opened_at: 1010,
  last_seen_at: 1100,
  resolved_at: null,
  device_seconds_lost: 200,
  throughput_lost_ratio: 0.5,
  cost: 4,
  currency: "EUR",
  timeline: [
    { at: 1000, event: "began", text: "step 40" },
    { at: 1010, event: "opened", text: "rank 2 is slow" },
  ],
  symptoms: [],
  response: {
    acknowledged: null,
    mitigated: null,
    owner: "",
    silenced: null,
    notes: [
      { event: "acknowledged", by: "ada", at: 1020, text: "" },
      { event: "comment", by: "bob", at: 1005, text: "<b>looking</b>" },
    ],
  },
} as unknown as Incident;

test("an open incident's cost runs on at its mean rate, for a minute at most", () => {
  assert.deepEqual(costAfter(OPEN, 0), { deviceSeconds: 200, money: 4, currency: "EUR", rate: 2 });
  assert.equal(costAfter(OPEN, 30).deviceSeconds, 260);
  assert.equal(costAfter(OPEN, 30).money, 5.2);
  assert.equal(costAfter(OPEN, 3600).deviceSeconds, 320);
  assert.equal(costAfter({ ...OPEN, state: "resolved" }, 30).deviceSeconds, 200);
});

test("a cost that is not known is unknown and not zero", () => {
  const unknown = costAfter({ ...OPEN, device_seconds_lost: 0, throughput_lost_ratio: null }, 30);
  assert.deepEqual(unknown, { deviceSeconds: null, money: null, currency: "", rate: 0 });
  assert.equal(costAfter({ ...OPEN, cost: null }, 30).money, null);
});

test("what people did stands between what detectors saw", () => {
  const words = historyOf(OPEN).map((event) => event.words);
  assert.deepEqual(words, ["began: step 40", "bob: <b>looking</b>", "opened", "acknowledged by ada"]);
});

test("the curve begins before the incident, and ends after it once it is over", () => {
  assert.deepEqual(rangeOf(OPEN), { from: 700, to: null });
  assert.deepEqual(rangeOf({ ...OPEN, state: "resolved", resolved_at: 3000 }), { from: 0, to: 4000 });
  assert.deepEqual(["hang", "loss-anomaly"].map(metricOf), ["step_seconds", "loss"]);
});

test("a curve's moments ascend: what an earlier attempt did again is left out", () => {
  const series = {
    name: "step_seconds",
    evaluation: "",
    at: [1, 3, 2, null, 4],
    mean: [0.1, null, 0.2, 0.3, 0.4],
    min: [0.1, null, 0.2, 0.3, 0.4],
    max: [0.1, null, 0.2, 0.3, 0.5],
  };
  const data = dataOf({ series: [series] } as unknown as Schemas["SeriesAnswer"]);
  assert.deepEqual(data.x, [1, 3, 4]);
  assert.deepEqual(data.lines[0]?.values, [0.1, null, 0.4]);
  assert.deepEqual(dataOf(null).x, []);
});

test("an incident that is over can be assigned and commented, and nothing else", () => {
  const acts = (changes: object): string[] => actsOn({ ...OPEN, ...changes } as Incident);
  assert.deepEqual(acts({ state: "resolved" }), ["assigned", "comment"]);
  assert.deepEqual(acts({}), ["acknowledged", "assigned", "silenced", "mitigated", "comment"]);
  const response = { ...OPEN.response, acknowledged: { by: "ada", at: 1 }, silenced: { id: "s" } };
  assert.deepEqual(acts({ response }), ["assigned", "unsilenced", "mitigated", "reopened", "comment"]);
});

test("a rank is drawn beside the median of its neighbours", () => {
  const rows = [0, 1, 2].map((rank) => ({ first: rank, last: rank, words: "", nodes: [] }));
  const seconds = [[1, 1, 9], [3, 2, 9], [2, null, 9]];
  const matrix = { attempt: 0, rows, seconds, at: [10, 20, 15] } as unknown as Schemas["MatrixAnswer"];
  const slow = { ...OPEN, rank: 1, attempt: 0, phase: "forward", since_step: 40 } as Incident;
  const data = rankLines(matrix, slow);
  assert.deepEqual(data?.x, [10, 20]);
  assert.deepEqual(data?.lines.map((line) => line.values), [[3, 2], [1.5, 1]]);
  assert.equal(rankLines(matrix, { ...slow, attempt: 1 }), null);
  assert.equal(rankLines(matrix, { ...slow, rank: 7 }), null);
  assert.equal(matrixQuery({ ...slow, rank: -1 }), null);
  assert.match(matrixQuery(slow) ?? "", /metric=forward&first=0&last=32&rows=63&columns=200&from_step=0/);
});
