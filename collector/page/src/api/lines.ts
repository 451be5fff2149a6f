/** The list of jobs: asked for once, then kept current by events. */
import { type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Answer, useAnswer } from "./answer";
import type { ServerEvent } from "./events";
import { listen } from "./live";
import { merged } from "./merging";
import type { Schemas } from "./types";

const TOPIC = "fleet";
type Jobs = Schemas["JobsAnswer"];

/** Returns the list of jobs. */
export function useJobLines(): ReadonlySignal<Answer<Jobs>> {
  const asked = useAnswer<Jobs>("/v1/jobs", { topic: TOPIC, concerns: () => false });
  const lines = useSignal(asked.peek());
  useSignalEffect(() => {
    lines.value = asked.value;
  });
  useEffect(() => {
    let waiting: ServerEvent[] = [];
    const apply = (): void => {
      const events = waiting;
      waiting = [];
      const { value } = lines.peek();
      if (value) lines.value = { ...lines.peek(), value: { jobs: merged(value.jobs, events) }, at: Date.now() };
    };
    return listen(TOPIC, (event) => {
      if (event?.event !== "job" && event?.event !== "gone") return;
      // Events that arrive together are drawn together.
      if (!waiting.length) queueMicrotask(apply);
      waiting.push(event);
    });
  }, []);
  return lines;
}
