import assert from "node:assert/strict";
import { test } from "node:test";
import { rateOf, samplesOf, total, troublesOf } from "../src/views/self/metrics";

const TEXT = `# HELP stepwatch_collector_jobs Jobs.
# TYPE stepwatch_collector_jobs gauge
stepwatch_collector_jobs 3.0
stepwatch_collector_segments_total{verdict="accepted"} 12.0
stepwatch_collector_segments_total{verdict="rejected"} 1.0
stepwatch_collector_refused_requests_total{reason="a \\"b\\" c"} 2.0
stepwatch_collector_evaluation_seconds NaN
stepwatch_job_step{job="a"} 7.0`;

test("the collector's own samples are read, and those of jobs are not", () => {
  const samples = samplesOf(TEXT);
  assert.deepEqual([...samples.keys()], ["jobs", "segments_total", "refused_requests_total"]);
  assert.equal(total(samples, "segments_total"), 13);
  assert.equal(total(samples, "segments_total", "verdict", "rejected"), 1);
  assert.equal(total(samples, "evaluation_seconds"), null, "what is not reported is unknown, not zero");
  assert.equal(samples.get("refused_requests_total")?.[0]?.labels.reason, 'a \\"b\\" c');
});

test("a rate needs two readings of one collector", () => {
  const reading = (at: number, count: number) => ({ at, samples: samplesOf(`stepwatch_collector_segments_total ${count}`) });
  assert.equal(rateOf("segments_total", null, reading(10, 5)), null);
  assert.equal(rateOf("segments_total", reading(10, 5), reading(20, 25)), 2);
  assert.equal(rateOf("segments_total", reading(10, 25), reading(20, 5)), null, "it began again");
});

test("what is wrong has words and a command", () => {
  assert.deepEqual(troublesOf(samplesOf(TEXT)), []);
  const [trouble] = troublesOf(samplesOf("stepwatch_collector_jobs_quarantined 2"));
  assert.match(trouble?.words ?? "", /^2 jobs are stored but not evaluated/);
  assert.match(trouble?.action ?? "", /^stepwatch /);
});
