/** Shades of the matrix: what share of the colour ramp a value takes, and its colour. */
import { channels, tokenColour } from "../theme/colours";

/** Values in seconds that get the faintest, the middle and the strongest colour. */
export interface HeatScale {
  low: number;
  middle: number;
  high: number;
  /** Whether what is far beyond the middle takes the upper half of the ramp. */
  split: boolean;
}

/**
 * Returns the scale of some cells: linear to the 95th percentile. What is far beyond takes the upper
 * half of the ramp, so that neither one long step nor jitter hides the other.
 */
export function scaleOf(rows: readonly (readonly (number | null)[])[], skippedColumns: number): HeatScale {
  const values: number[] = [];
  for (const row of rows) {
    for (let index = skippedColumns; index < row.length; index += 1) {
      const value = row[index];
      if (value !== null && value !== undefined) values.push(value);
    }
  }
  values.sort((one, other) => one - other);
  const at = (share: number): number => values[Math.round(share * (values.length - 1))] ?? 0;
  const [low, middle, high] = [at(0.05), at(0.95), at(1)];
  return { low, middle, high, split: middle - low < (high - low) / 2 };
}

/** Returns the scale in words, for the line above the matrix. */
export function scaleWords(scale: HeatScale, say: (value: number) => string): string {
  const middle = scale.split ? `, medium ${say(scale.middle)}` : "";
  return `faint ${say(scale.low)}${middle}, strong ${say(scale.high)}`;
}

/** Returns the share of the ramp, 0 faint to 1 strong. */
export function shareOf({ low, middle, high, split }: HeatScale, value: number): number {
  if (!split) return clamped((value - low) / (high - low || 1));
  if (value <= middle) return 0.5 * clamped((value - low) / (middle - low || 1));
  const beyond = middle > 0 ? Math.log(value / middle) / (Math.log(high / middle) || 1) : value / high;
  return 0.5 + 0.5 * clamped(beyond);
}

const clamped = (share: number): number => Math.min(1, Math.max(0, share));

/** Returns the ramp's colours in the current theme: 256 entries of red, green and blue. */
export function ramp(): Uint8ClampedArray {
  const [faint, strong] = ["--faint", "--strong"].map((token) => channels(tokenColour(token)));
  const colours = new Uint8ClampedArray(768);
  for (let index = 0; index < 256; index += 1) {
    for (let part = 0; part < 3; part += 1) {
      const [from, to] = [faint?.[part] ?? 0, strong?.[part] ?? 0];
      colours[3 * index + part] = from + ((to - from) * index) / 255;
    }
  }
  return colours;
}
