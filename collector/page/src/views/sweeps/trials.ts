/** Trials of a sweep: which is the best, and where each lies in a scatter. Pure. */
import type { Schemas } from "../../api/types";
import type { Span } from "../../charts/range";
import { roundTicks } from "../../charts/range";
import { type ChartTable, MOST_ROWS } from "../shared/chart_table";

type Trial = Schemas["Trial"];

/** Whether lower or higher values of a metric are better; lower where the job does not say. */
export const isHigherBetter = (trials: readonly Trial[]): boolean => trials.some(({ value }) => value?.better === "higher");

/** Returns a trial's best value; null without a finite one. */
export const bestOf = (trial: Trial, higher: boolean): number | null =>
  (higher ? trial.value?.greatest : trial.value?.least) ?? null;

/** Returns the trials, the best first, those without a value last. */
export function ranked(trials: readonly Trial[]): Trial[] {
  const higher = isHigherBetter(trials);
  const place = (trial: Trial): number => {
    const best = bestOf(trial, higher);
    return best === null ? Number.POSITIVE_INFINITY : higher ? -best : best;
  };
  return [...trials].sort((one, other) => {
    const [first, second] = [place(one), place(other)];
    return first === second ? (one.job < other.job ? -1 : 1) : first - second;
  });
}

/** Returns a setting as a number: "3e-4" is 0.0003; null for words and for what is not finite. */
export function numberOf(text: string | undefined): number | null {
  if (text === undefined || !text.trim()) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

/** Returns the settings that are numbers in two trials or more, in the order of the answer. */
export const numericSettings = (answer: Pick<Schemas["SweepAnswer"], "settings" | "trials">): string[] =>
  answer.settings.filter((name) => answer.trials.filter((trial) => numberOf(trial.settings[name]) !== null).length > 1);

/** A trial in the scatter. */
export interface Dot {
  trial: Trial;
  x: number;
  y: number;
}

/** Returns the trials that have both numbers. */
export function dotsOf(trials: readonly Trial[], setting: string): Dot[] {
  const higher = isHigherBetter(trials);
  return trials.flatMap((trial) => {
    const [x, y] = [numberOf(trial.settings[setting]), bestOf(trial, higher)];
    return x === null || y === null ? [] : [{ trial, x, y }];
  });
}

/** Returns the dots as a table, in the order of the trials. */
export const dotTable = (dots: readonly Dot[], setting: string, metric: string, format: (value: number) => string): ChartTable => ({
  columns: ["Trial", setting, `Best ${metric}`, "State"],
  rows: dots.slice(0, MOST_ROWS).map(({ trial, y }) => [trial.job, trial.settings[setting] ?? "", format(y), trial.state]),
  count: dots.length,
});

/** An axis of the scatter: its ends, ticks, and the place of a value, 0 to 1. */
export interface Scale {
  ticks: number[];
  place: (value: number) => number;
}

const LOGARITHMIC_FROM = 50;

/** Returns an axis for some values; a logarithmic one for positive values that span decades. */
export function scaleOf(values: readonly number[], most: number): Scale {
  const [least, greatest] = [Math.min(...values), Math.max(...values)];
  const isLogarithmic = least > 0 && greatest / least >= LOGARITHMIC_FROM;
  const map = isLogarithmic ? Math.log10 : (value: number): number => value;
  const space = (map(greatest) - map(least)) * 0.06 || Math.abs(map(least)) * 0.1 || 1;
  const span: Span = { min: map(least) - space, max: map(greatest) + space };
  const ticks = isLogarithmic ? decades(span).slice(0, most) : roundTicks(span, most, false);
  return { ticks, place: (value) => (map(value) - span.min) / (span.max - span.min) };
}

function decades({ min, max }: Span): number[] {
  const ticks: number[] = [];
  for (let power = Math.ceil(min); power <= max; power += 1) ticks.push(10 ** power);
  return ticks;
}

/** A beginning that several jobs' names share. */
export interface Prefix {
  prefix: string;
  count: number;
}

const LEAST_TRIALS = 3;
const MOST_PREFIXES = 20;

/** Returns beginnings that three names or more share up to a separator, the most shared first. */
export function prefixesOf(names: readonly string[]): Prefix[] {
  const counts = new Map<string, number>();
  for (const name of names) {
    const match = /^(.*[-_/.])[^-_/.]+$/.exec(name);
    if (match?.[1]) counts.set(match[1], (counts.get(match[1]) ?? 0) + 1);
  }
  return [...counts]
    .map(([prefix, count]) => ({ prefix, count }))
    .filter(({ count }) => count >= LEAST_TRIALS)
    .sort((one, other) => other.count - one.count || (one.prefix < other.prefix ? -1 : 1))
    .slice(0, MOST_PREFIXES);
}

/** Returns sums of device-time and money over trials; null where one is unknown. */
export function spentOn(trials: readonly Trial[]): { seconds: number | null; money: number | null; currency: string } {
  const sum = (values: readonly (number | null | undefined)[]): number | null =>
    values.some((value) => value === null || value === undefined)
      ? null
      : (values as readonly number[]).reduce((total, value) => total + value, 0);
  const currency = trials.find(({ cost }) => cost)?.cost?.currency ?? "";
  return { seconds: sum(trials.map((trial) => trial.device_seconds)), money: sum(trials.map((trial) => trial.cost?.money)), currency };
}
