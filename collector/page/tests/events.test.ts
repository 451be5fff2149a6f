import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "../src/api/events";

test("events that arrive in pieces are whole", () => {
  const reader = new EventReader();
  const text = 'id: 7\nevent: job\ndata: {"job":\ndata: "a"}\n\n: heartbeat\n\nid: 8\ndata: x\n\n';
  const events = [...text].flatMap((letter) => reader.push(letter));
  assert.deepEqual(events, [
    { id: "7", event: "job", data: '{"job":\n"a"}' },
    { id: "8", event: "message", data: "x" },
  ]);
});

test("an unfinished event waits", () => {
  const reader = new EventReader();
  assert.deepEqual(reader.push("data: half"), []);
  assert.equal(reader.push("\n\n").length, 1);
});
