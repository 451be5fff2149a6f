/** Answers of the collector that views show: asked once, then again when their topic changes. */
import { type ReadonlySignal, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
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
    const asking = new Asking(async () => {
      try {
        const value = await getJson<T>(path);
        return { value, failure: null, at: Date.now() };
      } catch (error) {
        const failure = error instanceof Refusal ? error : new Refusal(0, String(error));
        return { ...answer.peek(), failure };
      }
    }, answer, renewal?.leastMs ?? LEAST_MS_BETWEEN);
    asking.now();
    const concerns = renewal?.concerns ?? (() => true);
    const ends = renewal?.topic ? listen(renewal.topic, (event) => {
      if (event === null || concerns(event.event, event.data)) asking.now();
    }) : () => {};
    const every = renewal?.everyMs;
    const timer = every ? setInterval(() => document.visibilityState === "visible" && asking.now(), every) : undefined;
    return () => {
      ends();
      clearInterval(timer);
      asking.end();
    };
  }, [path, renewal?.topic]);
  return answer;
}

/** Asks one request at a time, with a pause between two. */
class Asking<T> {
  private running = false;
  private again = false;
  private ended = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly ask: () => Promise<Answer<T>>,
    private readonly answer: { value: Answer<T> },
    private readonly leastMs: number,
  ) {}

  now(): void {
    if (this.running) {
      this.again = true;
      return;
    }
    this.running = true;
    this.again = false;
    void this.ask().then((next) => {
      if (this.ended) return;
      note(next.failure);
      // The same object means that nothing changed: nothing is drawn.
      const before = this.answer.value;
      if (next.value !== before.value || next.failure !== before.failure) this.answer.value = next;
      this.timer = setTimeout(() => {
        this.running = false;
        if (this.again) this.now();
      }, this.leastMs);
    });
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }
}

/** Returns a test for live events that name one of the changed answers. */
export const changes =
  (...names: string[]) =>
  (event: string, data: string): boolean =>
    event === "gone" || (event === "live" && names.some((name) => changedIn(data).includes(name)));

function changedIn(data: string): string[] {
  const document = JSON.parse(data) as { changed?: string[] };
  return document.changed ?? [];
}
