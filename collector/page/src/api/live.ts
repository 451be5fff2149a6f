/** When views ask anew: at an interval, and not while the tab is hidden. */
import { signal } from "@preact/signals";
import type { ServerEvent } from "./events";

/** How the page learns of changes: "closed" while it is hidden or the collector is away. */
export const connection = signal<"closed" | "polling">("closed");

/** Handles an event of a topic; without one it is time to ask anew. */
export type Listener = (event: ServerEvent | null) => void;

const POLL_MS = 3_000;

const listeners = new Map<string, Set<Listener>>();
let opening: ReturnType<typeof setTimeout> | undefined;
let polling: ReturnType<typeof setInterval> | undefined;

/** Listens to a topic, "fleet" or "job:NAME"; returns the function that ends it. */
export function listen(topic: string, listener: Listener): () => void {
  const group = listeners.get(topic) ?? new Set();
  group.add(listener);
  if (!listeners.has(topic)) {
    listeners.set(topic, group);
    reopen(0);
  }
  return () => {
    group.delete(listener);
    if (!group.size && listeners.get(topic) === group) {
      listeners.delete(topic);
      reopen(0);
    }
  };
}

/** Follows whether the tab is visible. */
export function followVisibility(): void {
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") close();
    else {
      askAnew();
      reopen(0);
    }
  });
}

function askAnew(): void {
  for (const group of listeners.values()) for (const listener of group) listener(null);
}

function close(): void {
  clearTimeout(opening);
  clearInterval(polling);
  polling = undefined;
  connection.value = "closed";
}

function reopen(afterMs: number): void {
  clearTimeout(opening);
  if (document.visibilityState === "hidden") return;
  opening = setTimeout(open, afterMs);
}

function open(): void {
  if (listeners.size) poll();
  else close();
}

/** Views ask anew at an interval. */
function poll(): void {
  connection.value = "polling";
  polling ??= setInterval(askAnew, POLL_MS);
}
