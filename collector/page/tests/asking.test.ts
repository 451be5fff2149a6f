import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Asking } from "../src/api/asking";

/** Lets promises settle. */
const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
};

function counting(leastMs: number): { asking: Asking; count: () => number } {
  let asked = 0;
  const asking = new Asking(async () => {
    asked += 1;
    return true;
  }, leastMs);
  return { asking, count: () => asked };
}

test("questions within the pause are one question after it, and an urgent one does not wait", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.now() });
  const { asking, count } = counting(5_000);
  asking.now();
  await settled();
  asking.now();
  asking.now();
  mock.timers.tick(4_999);
  assert.equal(count(), 1);
  mock.timers.tick(1);
  await settled();
  assert.equal(count(), 2);
  asking.now();
  asking.now(true);
  await settled();
  assert.equal(count(), 3);
  mock.timers.tick(60_000);
  assert.equal(count(), 3, "nothing was asked since");
  mock.timers.reset();
});

test("an idle tab pauses longer", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: Date.now() });
  const { asking, count } = counting(5_000);
  mock.timers.tick(31_000);
  asking.now();
  await settled();
  asking.now();
  mock.timers.tick(119_999);
  assert.equal(count(), 1);
  mock.timers.tick(1);
  await settled();
  assert.equal(count(), 2);
  asking.end();
  mock.timers.reset();
});
