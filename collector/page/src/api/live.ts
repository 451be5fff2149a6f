/**
 * One stream of events for the tab, shared by its views; where a proxy holds events back, polling.
 * A hidden tab has neither.
 */
import { signal } from "@preact/signals";
import { plain, tokenHeaders } from "./client";
import { EventReader, type ServerEvent } from "./events";

/** How the page learns of changes: "closed" while it is hidden, "idle" where no view needs events. */
export const connection = signal<"closed" | "idle" | "stream" | "polling">("idle");

/** Handles an event of a topic; without one it is time to ask anew. */
export type Listener = (event: ServerEvent | null) => void;

/** The first event comes at once, unless a proxy holds it back. */
const FIRST_EVENT_WITHIN_MS = 5_000;
/** Longer than the collector's longest silence, which a comment ends. */
const SILENCE_MS = 40_000;
const POLL_MS = 3_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000] as const;

const listeners = new Map<string, Set<Listener>>();
let cursor = "";
let stream: AbortController | null = null;
let opening: ReturnType<typeof setTimeout> | undefined;
let polling: ReturnType<typeof setInterval> | undefined;
let failures = 0;

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

function close(state: "closed" | "idle" = "closed"): void {
  clearTimeout(opening);
  clearInterval(polling);
  polling = undefined;
  stream?.abort();
  stream = null;
  connection.value = state;
}

function reopen(afterMs: number): void {
  clearTimeout(opening);
  if (document.visibilityState === "hidden") return;
  opening = setTimeout(open, afterMs);
}

async function open(): Promise<void> {
  if (!listeners.size) {
    close("idle");
    return;
  }
  stream?.abort();
  const opened = new AbortController();
  stream = opened;
  try {
    await read(opened);
    failures = 0;
  } catch {
    failures += 1;
  }
  if (stream !== opened) return;
  poll();
  reopen(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 5_000);
}

/** Until the stream works again, views ask anew at an interval. */
function poll(): void {
  connection.value = "polling";
  polling ??= setInterval(askAnew, POLL_MS);
}

function streaming(): void {
  // What happened while there was no stream is not in it.
  if (connection.peek() === "polling") askAnew();
  connection.value = "stream";
  clearInterval(polling);
  polling = undefined;
  failures = 0;
}

async function read(opened: AbortController): Promise<void> {
  const topics = [...listeners.keys()].map((topic) => `topic=${encodeURIComponent(topic)}`);
  const resumed = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
  let silence = setTimeout(() => opened.abort(), FIRST_EVENT_WITHIN_MS);
  try {
    const response = await fetch(`/v1/events?${topics.join("&")}${resumed}`, {
      headers: { ...tokenHeaders(), accept: "text/event-stream" },
      signal: opened.signal,
    });
    if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
    const reader = new EventReader();
    const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await text.read(); !part.done; part = await text.read()) {
      clearTimeout(silence);
      silence = setTimeout(() => opened.abort(), SILENCE_MS);
      if (stream !== opened) return;
      streaming();
      for (const event of reader.push(part.value)) deliver(event);
    }
  } finally {
    clearTimeout(silence);
  }
}

function deliver(event: ServerEvent): void {
  if (event.id) cursor = event.id;
  if (event.event === "resync") {
    askAnew();
    return;
  }
  const cleaned = { ...event, data: plain(event.data) };
  const job = jobOf(cleaned.data);
  const topics = event.event === "live" ? [`job:${job}`] : [`job:${job}`, "fleet"];
  for (const topic of topics) for (const listener of listeners.get(topic) ?? []) listener(cleaned);
}

function jobOf(data: string): string {
  try {
    const document = JSON.parse(data) as { job?: unknown };
    return typeof document.job === "string" ? document.job : "";
  } catch {
    return "";
  }
}
