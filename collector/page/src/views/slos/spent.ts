/** What ate a budget: device-time by cause in a window. Pure. */
import type { Schemas } from "../../api/types";
import { CAUSES } from "../../theme/colours";

/** A cause with its device-seconds, and its share of all. */
export interface SpentPart {
  cause: string;
  seconds: number;
  share: number;
}

/** Returns the causes with time, in their order; productive time is one of them. */
export function partsOf(answer: Schemas["SpentAnswer"]): SpentPart[] {
  const sums = Object.keys(CAUSES).map((cause) => ({
    cause,
    seconds: (answer.causes[cause] ?? []).reduce<number>((sum, value) => sum + (value ?? 0), 0),
  }));
  const total = sums.reduce((sum, { seconds }) => sum + seconds, 0);
  return sums.filter(({ seconds }) => seconds > 0).map((part) => ({ ...part, share: part.seconds / total }));
}

/** Returns what was not productive, the most first. */
export const lossesOf = (parts: readonly SpentPart[]): SpentPart[] =>
  parts.filter(({ cause }) => cause !== "productive").sort((one, other) => other.seconds - one.seconds);
