/** A rank's value as a bar, with a mark at its peers'. */

/** One comparison; `share` and `peerShare` are 0 to 1 of the bar's width, null while unknown. */
export interface Comparison {
  name: string;
  value: string;
  against: string;
  share: number | null;
  peerShare: number | null;
}

/** Returns the shares of two values on one bar: the greater one takes nine tenths. */
export function sharesOf(value: number | null, peer: number | null): [number | null, number | null] {
  const most = Math.max(value ?? 0, peer ?? 0);
  const share = (part: number | null): number | null =>
    part === null || !(most > 0) || part < 0 ? null : (0.9 * part) / most;
  return [share(value), share(peer)];
}

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
