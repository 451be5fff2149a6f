/** A rank's value as a bar, with a mark at its peers'. */
import type { Comparison } from "./comparisons";

/** Comparisons, one below the other. */
export function Comparisons({ items }: { items: readonly Comparison[] }) {
  return (
    <ul class="comparisons">
      {items.map((item) => (
        <li key={item.name}>
          <span>{item.name}</span>
          <span class="quiet figure-text push">
            <b>{item.value}</b> {item.against}
          </span>
          {item.share !== null && (
            <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
              <rect class="rail" width="100" height="6" rx="1" />
              <rect class="bar" width={100 * item.share} height="6" rx="1" />
              {item.peerShare !== null && <rect class="peer" x={100 * item.peerShare} width="0.8" height="6" />}
            </svg>
          )}
        </li>
      ))}
    </ul>
  );
}
