/** Asks the collector; its answers come back as JSON whose text is safe to show and to copy. */

const ANSWER_WITHIN_MS = 10_000;
const TOKEN_KEY = "stepwatch-token";

// What a terminal obeys or an eye does not see shows as U+FFFD: people copy from the page into shells.
const OBEYED =
  // oxlint-disable-next-line no-control-regex
  /^(?:\\[bf]|[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb])$/;

/** Replaces control and invisible characters in JSON text, before it is parsed: numbers cost nothing. */
export function plain(json: string): string {
  return json.replace(/[\x7f-\uffff]|\\(?:u[0-9a-f]{4}|.)/gi, (text) =>
    OBEYED.test(unescaped(text)) ? "\ufffd" : text,
  );
}

const unescaped = (text: string): string =>
  text[1] === "u" ? String.fromCharCode(Number.parseInt(text.slice(2), 16)) : text;

/** A refusal of the collector, or no answer; `status` is 0 without one. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const stored = (): string | null => sessionStorage.getItem(TOKEN_KEY);

/** Keeps a token for this tab. */
export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/** The headers of a request: the token, if the tab has one. */
export function tokenHeaders(): Record<string, string> {
  const token = stored();
  return token ? { authorization: `Bearer ${token}` } : {};
}

interface Kept {
  etag: string;
  value: unknown;
}
const kept = new Map<string, Kept>();
const MOST_KEPT = 64;

/**
 * Returns the JSON at a path. An answer that has not changed is the same object as before.
 *
 * Throws Refusal.
 */
export async function getJson<T>(path: string): Promise<T> {
  const before = kept.get(path);
  const headers = { ...tokenHeaders(), ...(before ? { "if-none-match": before.etag } : {}) };
  const response = await request(path, { headers });
  if (response.status === 304 && before) return before.value as T;
  const value = JSON.parse(plain(await response.text())) as T;
  remember(path, response.headers.get("etag"), value);
  return value;
}

function remember(path: string, etag: string | null, value: unknown): void {
  kept.delete(path);
  if (etag === null) return;
  kept.set(path, { etag, value });
  const oldest = kept.keys().next();
  if (kept.size > MOST_KEPT && !oldest.done) kept.delete(oldest.value);
}

/** Returns the text at a path, safe to show. Throws Refusal. */
export async function getText(path: string): Promise<string> {
  return plain(await (await request(path, { headers: tokenHeaders() })).text());
}

/** Sends a JSON document and returns the answer. Throws Refusal. */
export async function postJson<T>(path: string, document: unknown, method: "POST" | "DELETE" = "POST"): Promise<T> {
  const headers = { ...tokenHeaders(), "content-type": "application/json" };
  const response = await request(path, { method, headers, body: JSON.stringify(document) });
  return JSON.parse(plain(await response.text())) as T;
}

const BYTES_WITHIN_MS = 120_000;

/** Returns the bytes at a path, such as a trace. Throws Refusal. */
export async function getBytes(path: string): Promise<ArrayBuffer> {
  const response = await request(path, { headers: tokenHeaders() }, BYTES_WITHIN_MS);
  return response.arrayBuffer();
}

async function request(path: string, options: RequestInit, withinMs = ANSWER_WITHIN_MS): Promise<Response> {
  let response: Response;
  try {
    // A collector that hangs is a failure, too: without a limit the page would wait for ever.
    response = await fetch(path, { ...options, signal: AbortSignal.timeout(withinMs) });
  } catch {
    throw new Refusal(0, "the collector does not answer");
  }
  if (response.ok || response.status === 304) return response;
  throw new Refusal(response.status, await reason(response));
}

async function reason(response: Response): Promise<string> {
  try {
    const document = JSON.parse(plain(await response.text())) as { error?: unknown };
    if (typeof document.error === "string") return document.error;
  } catch {
    // No JSON: a proxy answered.
  }
  return `HTTP ${response.status}`;
}
