/** The collector's own metrics, from Prometheus text. Pure. */
import { counted } from "../../words/quantities";

/** A sample: its labels, and its value. */
export interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** Samples by the name of their metric. */
export type Samples = ReadonlyMap<string, readonly Sample[]>;

/** The beginning of the names of the collector's own metrics; those of jobs have pages. */
const OWN = "stepwatch_collector_";
const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/** Returns the collector's own samples, by name without the common beginning. */
export function samplesOf(text: string): Samples {
  const samples = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    if (!line.startsWith(OWN)) continue;
    const match = LINE.exec(line);
    const name = match?.[1]?.slice(OWN.length);
    const value = Number(match?.[3]);
    if (name === undefined || Number.isNaN(value)) continue;
    const labels = Object.fromEntries([...(match?.[2] ?? "").matchAll(LABEL)].map(([, label = "", of = ""]) => [label, of]));
    samples.set(name, [...(samples.get(name) ?? []), { labels, value }]);
  }
  return samples;
}

/** Returns the sum of a metric's samples, or of those with a label's value; null if there is none. */
export function total(samples: Samples, name: string, label?: string, wanted?: string): number | null {
  const fitting = (samples.get(name) ?? []).filter(({ labels }) => label === undefined || labels[label] === wanted);
  return fitting.length ? fitting.reduce((sum, { value }) => sum + value, 0) : null;
}

/** What is wrong with the collector itself, and what to do. */
export interface Trouble {
  words: string;
  action: string;
}

const CHECKS: readonly (readonly [string, number, (value: number) => string, string])[] = [
  ["objectives_unreadable", 0, () => "The newest SLO documents or the site file are wrong: those read before are in force", "stepwatch slo check FILE"],
  ["jobs_quarantined", 0, (count) => `${count} jobs are stored but not evaluated: their records raised an error`, "stepwatch status"],
  ["evaluation_failures_total", 0, (count) => `${count} evaluations ended in an error`, "stepwatch store verify"],
  ["asked_flush_seconds", 0, (seconds) => `Evaluations take too long: agents are asked to send every ${seconds} s`, "stepwatch collector --help"],
  ["notices_given_up", 0, (count) => `${count} notices of a day were given up: no person was paged for them`, "stepwatch incidents"],
  ["segments_unreadable_total", 0, (count) => `${count} stored segments could not be read`, "stepwatch store verify"],
  ["object_failures_total", 0, (count) => `The place of payloads did not answer ${count} times`, "stepwatch store verify"],
  ["jobs_capped", 0, (count) => `${counted(count, "job")} left out of the metrics: at most 500 have series`, "stepwatch collector --help"],
];

/** Returns what is wrong with the collector itself. */
export const troublesOf = (samples: Samples): Trouble[] =>
  CHECKS.flatMap(([name, limit, say, action]) => {
    const value = total(samples, name);
    return value !== null && value > limit ? [{ words: say(value), action }] : [];
  });

/** Returns how many checks have a value, and how many there are. */
export const checkedOf = (samples: Samples): { known: number; all: number } => ({
  known: CHECKS.filter(([name]) => total(samples, name) !== null).length,
  all: CHECKS.length,
});

/** Returns what a counter grew by each second between two readings; null without two, or after a restart. */
export function rateOf(name: string, before: { at: number; samples: Samples } | null, now: { at: number; samples: Samples }): number | null {
  const [first, second] = [before ? total(before.samples, name) : null, total(now.samples, name)];
  if (!before || first === null || second === null || second < first || now.at <= before.at) return null;
  return (second - first) / (now.at - before.at);
}
