/** Whether the tab is in use. One that is only left open asks seldom; its events come all the same. */

const IDLE_AFTER_MS = 30_000;
const USES = ["pointermove", "pointerdown", "keydown", "wheel", "touchstart"] as const;

let usedAt = Date.now();
const returns = new Set<() => void>();

/** Returns whether nothing was touched for a while. */
export const isIdle = (): boolean => Date.now() - usedAt > IDLE_AFTER_MS;

/** Calls `act` at the first use of an idle tab; returns the function that ends this. */
export function onReturn(act: () => void): () => void {
  returns.add(act);
  return () => returns.delete(act);
}

/** Follows the use of the tab. */
export function followAttention(): void {
  for (const use of USES) addEventListener(use, used, { passive: true, capture: true });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") used();
  });
}

function used(): void {
  const wasIdle = isIdle();
  usedAt = Date.now();
  if (wasIdle) for (const act of returns) act();
}
