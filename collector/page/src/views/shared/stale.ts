/** Words for an answer that is old: what it says is not known to hold now. */

/** Why an answer is old, and the state that it says. */
export interface Stale {
  seconds: number;
  state: string | null;
  reason: string;
}

/** Returns the reason and the state before; empty for a fresh answer. */
export const staleWords = (stale: Stale | undefined): string =>
  stale ? stale.reason + (stale.state ? `; it was ${stale.state} then` : "") : "";
