/** Values beside what they are compared with. Pure. */
import type { Schemas } from "../api/types";
import { measure } from "../words/quantities";

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

/** Returns evidence with a number as comparisons, those with a bar first. */
export function comparisonsOf(evidence: readonly Schemas["Evidence"][]): Comparison[] {
  return evidence
    .filter((item) => item.value !== null && !item.text)
    .map((item): Comparison => {
      const peer = item.reference ?? null;
      const [share, peerShare] = peer === null ? [null, null] : sharesOf(item.value, peer);
      return { name: item.name, value: measure(item.value, item.unit), against: item.against, share, peerShare };
    })
    .sort((one, other) => Number(other.share !== null) - Number(one.share !== null));
}
