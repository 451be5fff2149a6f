/** Numbers as people say them, by the rules of the command line's `quantities.py`. */

/** What an unknown value is called, everywhere. */
export const UNKNOWN = "unknown";

type Maybe = number | null | undefined;
const isKnown = (value: Maybe): value is number => value !== null && value !== undefined;

const grouped = (value: number, digits: number): string =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** A number with digits after the point. */
export const number = (value: Maybe, digits = 2): string =>
  isKnown(value) ? grouped(value, digits) : UNKNOWN;

/** A share as percent. */
export const percent = (value: Maybe, digits = 1): string =>
  isKnown(value) ? `${(100 * value).toFixed(digits)}%` : UNKNOWN;

/** Seconds in the unit that people say. */
export function seconds(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 0.9995) return value ? `${Number((1000 * value).toPrecision(3))} ms` : "0 s";
  if (value < 120) return `${value.toFixed(2)} s`;
  return value < 7200 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
}

/** An age or a span in whole units: "8 s", "6 min", "3 h", "2 d". */
export function span(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 100) return `${Math.max(0, Math.round(value))} s`;
  if (value < 5_400) return `${Math.round(value / 60)} min`;
  return value < 172_800 ? `${Math.round(value / 3_600)} h` : `${Math.round(value / 86_400)} d`;
}

/** Device time in the unit that people say. */
export function deviceTime(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 59.95) return `${value.toFixed(1)} device-s`;
  if (value < 3597) return `${(value / 60).toFixed(1)} device-min`;
  return `${grouped(value / 3600, 2)} device-h`;
}

/** Bytes with a decimal unit. */
export function bytes(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = value < 1 ? 0 : Math.min(4, Math.floor(Math.log10(value) / 3));
  return `${(value / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

/** A large count in short: "1.12 M". */
export function short(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]] as const) {
    if (size >= limit) return `${Number((value / (unit === "k" ? 1e3 : limit)).toPrecision(3))} ${unit}`;
  }
  return Number.isInteger(value) ? grouped(value, 0) : String(Number(value.toPrecision(4)));
}

/** Money; small amounts with four digits. */
export const money = (value: Maybe, currency: string): string =>
  isKnown(value) ? `${grouped(value, Math.abs(value) < 1 ? 4 : 2)} ${currency}` : UNKNOWN;

/** An evidence value with its unit: the words of a unit follow its first part, as in "seconds_per_step". */
export function measure(value: Maybe, unit: string): string {
  if (!isKnown(value)) return UNKNOWN;
  const [name, ...rest] = unit.replaceAll("_", " ").split(" ");
  const worded = { seconds, bytes, ratio: (share: number) => percent(share, 0) }[name ?? ""];
  if (worded) return [worded(value), ...rest].join(" ");
  if (unit === "step") return `step ${value}`;
  if (unit === "digest") return value.toString(16);
  return `${plainNumber(value)} ${unitOf(value, unit)}`.trimEnd();
}

const plainNumber = (value: number): string =>
  Number.isInteger(value) || Math.abs(value) >= 1000
    ? grouped(value, 0)
    : String(Number(value.toPrecision(3)));

const unitOf = (value: number, unit: string): string =>
  value === 1 && ["events", "ranks", "steps"].includes(unit) ? unit.slice(0, -1) : unit;

/** "1 rank", "2 ranks". */
export const counted = (count: number, noun: string): string =>
  `${grouped(count, 0)} ${noun}${count === 1 ? "" : "s"}`;

/** Returns how values of a metric are said, by its unit. */
export function formatOf(unit: string): (value: number) => string {
  if (unit === "s" || unit === "seconds") return seconds;
  return unit === "ratio" ? (value) => percent(value, 0) : short;
}
