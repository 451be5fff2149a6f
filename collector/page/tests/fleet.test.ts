import assert from "node:assert/strict";
import { test } from "node:test";
import { arranged, devicesOf, isIn, type Line, matching, needOf, sorted, tops, visible, wantedOf } from "../src/views/fleet/arrange";
import { sentenceOf } from "../src/views/fleet/sentence";

const RUNNING = {
  attempt: 0, state: "running", reason: null, since: null, world_size: 8, step: 100, newest_record_at: 50, open_incidents: 0,
  worst: null, slos: [], devices: 8, nodes: { count: 1, first: ["gpu-1"] }, job_class: "research", project: "llama",
  pace: [0.2], goodput: { today: 0.9, run: 0.9 }, cost_today: null, verified_checkpoint: { step: null, saved_at: null, reason: "" }, as_of: 50,
} as const;

const line = (job: string, more: Partial<Line> = {}): Line => ({ ...(RUNNING as unknown as Line), job, ...more });

function slow(job: string, lost: number | null, severity: "alert" | "info" = "alert"): Line {
  const worst = { id: job, kind: "straggler", summary: "rank 2 is slow: 250 ms", severity, began_at: 40, throughput_lost_ratio: lost };
  return line(job, { state: severity === "alert" ? "degraded" : "running", open_incidents: 1, worst });
}

const names = (lines: readonly Line[]): string[] => lines.map(({ job }) => job);
const wanted = (query: string) => wantedOf(new URLSearchParams(query));

test("what needs action comes first, and unknown before what trains", () => {
  const lines = [line("d", { state: "finished" }), line("c"), line("u", { state: "stale" }), slow("b", 0.2), slow("a", 0.5), slow("i", 0.01, "info"), line("f", { state: "failed" })];
  assert.deepEqual(names(sorted(lines, "need", false)), ["a", "b", "i", "u", "f", "c", "d"]);
});

test("a running job whose incidents are unknown does not count as training", () => {
  assert.equal(needOf(line("a", { open_incidents: null })), "unknown");
  assert.equal(needOf(line("a", { state: "quarantined", open_incidents: null })), "unknown");
  assert.equal(needOf(line("a", { state: "a word of a later version" as Line["state"] })), "unknown");
});

test("devices of a job of which nothing is known are not busy", () => {
  const lines = [line("a"), slow("b", 0.4), line("c", { state: "stale" }), line("d", { state: "stalled" }), line("e", { state: "failed" })];
  assert.deepEqual(devicesOf(lines), { busy: 16, known: 32 });
});

test("unknown values come last in both directions", () => {
  const goodput = (today: number | null) => ({ goodput: { today, run: null } });
  const lines = [line("a", goodput(null)), line("b", goodput(0.9)), line("c", goodput(0.1))];
  assert.deepEqual(names(sorted(lines, "goodput", false)), ["c", "b", "a"]);
  assert.deepEqual(names(sorted(lines, "goodput", true)), ["b", "c", "a"]);
});

test("all words of the filter are looked for in name, project, class, node and incident", () => {
  const lines = [line("Alpha"), line("beta", { project: "vision" }), slow("gamma", null)];
  assert.deepEqual(names(matching(lines, wanted("q=ALPHA+gpu-1"))), ["Alpha"]);
  assert.deepEqual(names(matching(lines, wanted("q=vision"))), ["beta"]);
  assert.deepEqual(names(matching(lines, wanted("q=rank+2"))), ["gamma"]);
  assert.deepEqual(names(matching(lines, wanted("node=gpu-1&project=llama"))), ["Alpha", "gamma"]);
});

test("the address holds what is wanted, and what it cannot mean is left out", () => {
  assert.deepEqual([wanted("sort=-money").sort, wanted("sort=-money").isReversed], ["money", true]);
  assert.deepEqual([wanted("sort=constructor").sort, wanted("group=toString").group], ["need", null]);
  assert.ok(isIn("open", slow("a", 0.1)) && isIn("training", slow("a", 0.1, "info")) && isIn("degraded", slow("a", 0.1)));
});

test("groups with the most urgent jobs come first", () => {
  const lines = [line("a"), line("b", { project: null }), { ...slow("c", 0.3), project: "vision" }];
  const items = arranged(lines, wanted("group=project"));
  assert.deepEqual(items.map((item) => ("line" in item ? item.line.job : [item.group, item.count, item.open])), [
    ["vision", 1, 1], "c", ["llama", 1, 0], "a", [null, 1, 0], "b",
  ]);
  const starts = tops(items, 50, 30);
  assert.deepEqual([...starts], [0, 30, 80, 110, 160, 190, 240]);
  assert.deepEqual([visible(starts, 0, 100), visible(starts, 79, 81), visible(starts, 900, 950)], [[0, 3], [1, 3], [6, 6]]);
});

const said = (lines: Line[]): string => sentenceOf(lines).parts.join("");

test("the sentence counts what is unknown apart", () => {
  assert.match(said([line("a"), slow("b", 0.47)]), /^1 of 2 jobs needs action: b is 47% slower since .*: rank 2 is slow$/);
  const long = said([slow("x".repeat(500), 0.5)]);
  assert.ok(long.includes("x…x") && long.length < 160);
  const lost = said([{ ...slow("b", 0.47), state: "unknown" }]);
  assert.equal(lost, "1 of 1 job needs action: b does not report; last known: 47% slower: rank 2 is slow");
  assert.equal(said([line("a"), line("b")]), "All 2 jobs train");
  assert.equal(said([line("a"), line("b", { state: "finished" })]), "a trains");
  assert.equal(said([line("a"), line("b", { state: "stale" })]), "1 of 2 jobs trains; 1 does not report");
  assert.equal(sentenceOf([line("b", { state: "unknown" })]).tone, "unsure");
  assert.equal(said([line("b", { state: "failed" })]), "No job trains: 1 job ended");
});

test("five thousand jobs are arranged within a frame or two", () => {
  const lines = Array.from({ length: 5_000 }, (_, index) => line(`job-${(7_919 * index) % 5_000}`, { project: `p${index % 40}` }));
  const began = performance.now();
  arranged(matching(lines, wanted("q=job&group=project")), wanted("group=project"));
  assert.ok(performance.now() - began < 250, "about 20 ms on an idle core");
});
