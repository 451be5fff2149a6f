import assert from "node:assert/strict";
import { test } from "node:test";
import { plain } from "../src/api/client";
import { amountIn } from "../src/views/job/side";
import { clauses } from "../src/words/verdict";

test("a summary is cut at its first clause", () => {
  assert.deepEqual(clauses("rank 2 is slow since step 40: 250 ms; and more"), ["rank 2 is slow since step 40", "250 ms; and more"]);
  assert.deepEqual(clauses("no colon"), ["no colon", ""]);
});

test("the reference in words gives a number in base units", () => {
  const texts = ["peers 58.3 ms", "baseline 360 ms", "peers 1,755", "median 1.5 GB/s", "the last to arrive waits least"];
  assert.deepEqual(texts.map(amountIn), [0.0583, 0.36, 1755, 1.5e9, null]);
});

test("what a terminal obeys and what turns text round is replaced before JSON is parsed", () => {
  assert.equal(JSON.parse(plain('"a\\u001b[31m\u202eb\\u200fc\u00e9"')), "a\ufffd[31m\ufffdb\ufffdc\u00e9");
});
