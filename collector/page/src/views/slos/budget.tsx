/** A budget's rest as a bar and in words. */
import { budgetWords } from "./rows";

/** Shows the remaining share, 1 whole; null is unknown and has no bar. */
export function Budget({ remaining, words }: { remaining: number | null; words?: string }) {
  const share = remaining === null ? null : Math.min(1, Math.max(0, remaining));
  return (
    <span class="budget">
      {share !== null && (
        <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
          <rect class="rail" width="100" height="8" rx="2" />
          <rect class={share > 0 ? "left" : "spent"} width={share > 0 ? 100 * share : 100} height="8" rx="2" />
        </svg>
      )}
      <span>{words ?? budgetWords(remaining)}</span>
    </span>
  );
}
