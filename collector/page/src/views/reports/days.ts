/** A report's days as columns. Pure. */
import type { Schemas } from "../../api/types";
import type { Column } from "../../charts/stacked_bars";
import { CAUSES } from "../../theme/colours";
import { deviceTime, percent } from "../../words/quantities";
import type { ChartTable } from "../shared/chart_table";

type Summed = Schemas["Summed"];

/** Length of a day in seconds; days are UTC days, as accounts are. */
export const DAY_S = 86_400;

/** Returns the whole UTC days that end with today's: from, and until. */
export function periodOf(days: number, now: number): { from: number; until: number } {
  const until = (Math.floor(now / DAY_S) + 1) * DAY_S;
  return { from: until - days * DAY_S, until };
}

/** The day of a moment, by UTC. */
export const dayWords = (at: number): string => new Date(1000 * at).toISOString().slice(0, 10);

/** Returns one column a day, of the highest day's height; a day without an account is empty. */
export function columnsOf(report: Pick<Schemas["ReportAnswer"], "from" | "until" | "days">): Column[] {
  const known = new Map(report.days.map((day) => [day.day, day]));
  const most = Math.max(...report.days.map((day) => day.allocated_seconds), 1e-9);
  const columns: Column[] = [];
  for (let at = report.from; at < report.until; at += DAY_S) {
    const day = known.get(at);
    const parts = day ? partsOf(day).map(({ cause, seconds }) => ({ name: cause, share: seconds / most })) : [];
    const words = day ? `${dayWords(at)}: ${deviceTime(day.allocated_seconds)}, ${percent(day.productive_ratio)} productive` : `${dayWords(at)}: no data`;
    columns.push({ name: dayWords(at), words, parts });
  }
  return columns;
}

/** Returns the days with an account as a table, the newest first; a cause without time that day has an empty cell. */
export function dayTable({ days, total }: Pick<Schemas["ReportAnswer"], "days" | "total">): ChartTable {
  const causes = partsOf(total).map(({ cause }) => cause);
  const shareOf = (seconds: number | undefined, all: number): string => (seconds && all > 0 ? percent(seconds / all) : "");
  const rows = [...days]
    .sort((one, other) => other.day - one.day)
    .map((day) => [
      dayWords(day.day),
      deviceTime(day.allocated_seconds),
      ...causes.map((cause) => shareOf(day.seconds[cause], day.allocated_seconds)),
    ]);
  return { columns: ["Day (UTC)", "Device-time", ...causes.map((cause) => cause.replaceAll("-", " "))], rows, count: rows.length };
}

/** Returns the causes with time, in the order in which they are stacked. */
export function partsOf(sum: Pick<Summed, "seconds">): { cause: string; seconds: number }[] {
  return Object.keys(CAUSES)
    .map((cause) => ({ cause, seconds: sum.seconds[cause] ?? 0 }))
    .filter(({ seconds }) => seconds > 0);
}

/** Returns what costs most first, by device-time. */
export const costliest = <T extends Summed>(items: readonly T[]): T[] =>
  [...items].sort((one, other) => other.allocated_seconds - one.allocated_seconds);

/** Returns a sum's greatest loss in words: "straggling, 12.0%"; empty where all was productive. */
export function worstLoss(sum: Pick<Summed, "seconds" | "allocated_seconds">): string {
  const [worst] = partsOf(sum)
    .filter(({ cause }) => cause !== "productive")
    .sort((one, other) => other.seconds - one.seconds);
  return worst ? `${worst.cause.replaceAll("-", " ")}, ${percent(worst.seconds / sum.allocated_seconds)}` : "";
}
