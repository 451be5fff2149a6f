/** Figures of runs beside each other, and what differs in their configuration. Pure. */
import type { Schemas } from "../../api/types";

type Run = Schemas["JobRunAnswer"];

/** A run's figures; null is unknown. */
export interface RunFigures {
  stepSeconds: number | null;
  tokensPerSecond: number | null;
  goodput: number | null;
  deviceSeconds: number;
  incidents: number;
}

/** Returns a run's figures: pace over the steps that every rank reported, productive share of device-time. */
export function figuresOf(run: Run): RunFigures {
  const sum = (part: (block: Schemas["Block"]) => number): number => run.blocks.reduce((total, block) => total + part(block), 0);
  const [steps, seconds, tokens] = [sum((block) => block.steps), sum((block) => block.seconds), sum((block) => block.tokens)];
  const spent = Object.values(run.device_seconds).reduce((total, value) => total + value, 0);
  return {
    stepSeconds: steps > 0 ? seconds / steps : null,
    tokensPerSecond: seconds > 0 && tokens > 0 ? tokens / seconds : null,
    goodput: spent > 0 ? (run.device_seconds.productive ?? 0) / spent : null,
    deviceSeconds: spent,
    incidents: Object.values(run.incidents).reduce((total, count) => total + count, 0),
  };
}

/** A fact that differs: its value in each run, null where a run does not report it. */
export interface Change {
  name: string;
  values: (string | null)[];
}

/** Returns the facts whose values are not the same in all runs, by name, and the number of equal ones. */
export function changesOf(runs: readonly Pick<Run, "facts" | "world_size">[]): { changes: Change[]; equal: number } {
  const facts = runs.map((run) => ({ ...run.facts, ranks: String(run.world_size) }) as Record<string, string>);
  const names = [...new Set(facts.flatMap((one) => Object.keys(one)))].sort();
  const all = names.map((name) => ({ name, values: facts.map((one) => one[name] ?? null) }));
  const changes = all.filter(({ values }) => values.some((value) => value !== values[0]));
  return { changes, equal: all.length - changes.length };
}
