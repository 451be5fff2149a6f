import assert from "node:assert/strict";
import { test } from "node:test";
import { plain } from "../src/api/client";
import { clauses } from "../src/words/verdict";

test("a summary is cut at its first clause", () => {
  assert.deepEqual(clauses("rank 2 is slow since step 40: 250 ms; and more"), ["rank 2 is slow since step 40", "250 ms; and more"]);
  assert.deepEqual(clauses("no colon"), ["no colon", ""]);
});

test("what a terminal obeys and what turns text round is replaced before JSON is parsed", () => {
  assert.equal(JSON.parse(plain('"a\\u001b[31m\u202eb\\u200fc\u00e9"')), "a\ufffd[31m\ufffdb\ufffdc\u00e9");
});
