/** Answers of the collector that views show: asked once, then again when their topic changes. */
import { type ReadonlySignal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Asking } from "./asking";
import { onReturn } from "./attention";
import { getJson, Refusal } from "./client";
import { listen } from "./live";

/** An answer; a failed request keeps the value before it, which is stale then. */
export interface Answer<T> {
  value: T | null;
  failure: Refusal | null;
  /** When the value came, in milliseconds; 0 before the first. */
  at: number;
}

const LEAST_MS_BETWEEN = 1_000;

/**
 * When an answer is renewed: at events of `topic` that concern it, at most once in `leastMs`, and every
 * `everyMs` while the tab is visible: some answers change without an event.
 */
export interface Renewal {
  topic?: string | null;
  everyMs?: number;
  concerns?: (event: string, data: string) => boolean;
  leastMs?: number;
}

/** Requests that got no answer since the last one that did. */
export const failureCount = signal(0);
/** Whether the collector refused because it wants another token. */
export const needsToken = signal(false);

function note(failure: Refusal | null): void {
  failureCount.value = failure?.status === 0 ? failureCount.peek() + 1 : 0;
  if (failure?.status === 401) needsToken.value = true;
}

/** Returns the answer at a path, and renews it; null as the path asks nothing. */
export function useAnswer<T>(path: string | null, renewal: Renewal | null = null): ReadonlySignal<Answer<T>> {
  const answer = useSignal<Answer<T>>({ value: null, failure: null, at: 0 });
  useEffect(() => {
    if (path === null) return;
    let isCurrent = true;
    const asking = new Asking(async () => {
      const next = await asked(path, answer.peek());
      if (!isCurrent) return false;
      note(next.failure);
      // The same object means that nothing changed: nothing is drawn.
      const before = answer.peek();
      if (next.value !== before.value || next.failure !== before.failure) answer.value = next;
      return next.failure === null;
    }, renewal?.leastMs ?? LEAST_MS_BETWEEN);
    asking.now();
    const concerns = renewal?.concerns ?? (() => true);
    const ends = renewal?.topic ? listen(renewal.topic, (event) => {
      const isNamed = event === null || concerns(event.event, event.data);
      if (isNamed) asking.now(event !== null && isUrgent(event.event, event.data));
    }) : () => {};
    const staysAway = renewal === null ? () => {} : onReturn(() => asking.now(true));
    const every = renewal?.everyMs;
    const timer = every ? setInterval(() => document.visibilityState === "visible" && asking.now(), every) : undefined;
    return () => {
      isCurrent = false;
      ends();
      clearInterval(timer);
      staysAway();
      asking.end();
    };
  }, [path, renewal?.topic]);
  return answer;
}

async function asked<T>(path: string, before: Answer<T>): Promise<Answer<T>> {
  try {
    const value = await getJson<T>(path);
    return { value, failure: null, at: Date.now() };
  } catch (error) {
    const failure = error instanceof Refusal ? error : new Refusal(0, String(error));
    return { ...before, failure };
  }
}

const URGENT = ["summary", "marks"];

/** Whether an event is about more than the next step: an incident, a state, a checkpoint. */
const isUrgent = (event: string, data: string): boolean => changes(...URGENT)(event, data);

/** Returns a test for live events that name one of the changed answers. */
export const changes =
  (...names: string[]) =>
  (event: string, data: string): boolean =>
    event === "gone" || (event === "live" && names.some((name) => changedIn(data).includes(name)));

function changedIn(data: string): string[] {
  const document = JSON.parse(data) as { changed?: string[] };
  return document.changed ?? [];
}
