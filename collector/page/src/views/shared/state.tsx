/** States as a word, a shape and a colour. */
import type { Tone } from "../../words/verdict";

const KINDS: Record<string, string> = {
  running: "good", healthy: "good", finished: "good", ok: "good", resolved: "good", verified: "good",
  failed: "bad", stalled: "bad", open: "bad", exhausted: "bad", quarantined: "bad", lost: "bad", damaged: "bad",
  burning: "warn", degraded: "warn", interrupted: "warn", stale: "warn", draining: "warn",
  ended: "ended", merged: "ended",
};
const WORDS: Record<string, string> = { "too-early": "too early" };

/** A state; one that is not known here counts as unknown. A `tone` says more than the word does. */
export function State({ word, title, tone }: { word: string; title?: string | undefined; tone?: Tone | undefined }) {
  return (
    <span class={`state s-${tone ?? KINDS[word] ?? "unsure"}`} title={title}>
      {WORDS[word] ?? word}
    </span>
  );
}

/** How bad a state is, 0 worst: what needs action first comes first. */
export function urgency(word: string): number {
  return ["bad", "warn", "unsure", "good", "ended"].indexOf(KINDS[word] ?? "unsure");
}
