/** The list of jobs: asked for once, then kept current by events. */
import { type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Answer, useAnswer } from "./answer";
import type { ServerEvent } from "./events";
import { listen } from "./live";
import { merged, renewed } from "./merging";
import type { Schemas } from "./types";

const TOPIC = "fleet";
type Jobs = Schemas["JobsAnswer"];

/** Returns the list of jobs. */
export function useJobLines(): ReadonlySignal<Answer<Jobs>> {
  const asked = useAnswer<Jobs>("/v1/jobs", { topic: TOPIC, concerns: () => false });
  const lines = useSignal(asked.peek());
  const waiting = useRef<ServerEvent[]>([]);
  const apply = (): void => {
    const { value } = lines.peek();
    if (!value) return;
    const events = waiting.current;
    waiting.current = [];
    lines.value = { ...lines.peek(), value: { jobs: merged(value.jobs, events) }, at: Date.now() };
  };
  useSignalEffect(() => {
    const { value, failure, at } = asked.value;
    const before = lines.peek();
    // A failure takes nothing away, and an answer may have been under way longer than an event.
    const jobs = value && !failure ? renewed(before.value?.jobs ?? [], value.jobs) : before.value?.jobs;
    lines.value = { value: jobs ? { jobs } : null, failure, at: failure ? before.at : at };
    if (waiting.current.length) apply();
  });
  useEffect(() => {
    return listen(TOPIC, (event) => {
      if (event?.event !== "job" && event?.event !== "gone") return;
      // Events that arrive together are drawn together.
      if (!waiting.current.length) queueMicrotask(apply);
      waiting.current.push(event);
    });
  }, []);
  return lines;
}
