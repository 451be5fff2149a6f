/** The sentence above the list: how many jobs need action, and which one first. */
import { clock } from "../../words/moments";
import { counted, percent } from "../../words/quantities";
import { clauses, type Tone } from "../../words/verdict";
import { type Line, type Need, needOf, sorted } from "./arrange";

/** The sentence, how it is drawn, what all other jobs do, and the job and incident that it names. */
export interface FleetSentence {
  tone: Tone;
  /** The sentence in three parts; the second is a job's name, which may run from right to left, or empty. */
  parts: readonly [string, string, string];
  rest: string;
  worst: Line | null;
}

/** Returns the sentence of at least one job. A job of which nothing is known does not count as training. */
export function sentenceOf(lines: readonly Line[]): FleetSentence {
  const counts = { act: 0, look: 0, unknown: 0, failed: 0, training: 0, ended: 0 } satisfies Record<Need, number>;
  for (const line of lines) counts[needOf(line)] += 1;
  const { act, look, unknown, failed, training, ended } = counts;
  const going = act + look + unknown + training;
  const all = counted(going, "job");
  const trains = training + look;
  const rest = (...parts: (string | false)[]): string => parts.filter(Boolean).join(" · ");
  const others = [look > 0 && `${counted(look, "job")} with a small incident`, failed > 0 && `${failed} failed`, ended > 0 && `${ended} ended`] as const;
  if (act > 0) {
    const [worst = null] = sorted(lines, "need", false);
    const [before, name, after] = worst ? nowOf(worst) : ["", "", ""];
    const parts = [`${act} of ${all} ${act === 1 ? "needs" : "need"} action: ${before}`, name, after] as const;
    return { tone: "bad", parts, rest: rest(trains > 0 && `${trains} ${trains === 1 ? "trains" : "train"}`, unknown > 0 && `${unknown} unknown`, ...others), worst };
  }
  if (unknown > 0) {
    const words = `${trains} of ${all} ${trains === 1 ? "trains" : "train"}; ${unknown === going ? "all" : unknown} ${unknown === 1 ? "does" : "do"} not report`;
    return { tone: "unsure", parts: only(trains ? words : `Unknown whether any of ${all} trains`), rest: rest(...others), worst: null };
  }
  if (!going) return { tone: "ended", parts: only(`No job trains: ${counted(failed + ended, "job")} ended`), rest: failed ? `${failed} failed` : "", worst: null };
  const single = going === 1 ? lines.find((line) => needOf(line) === "training" || needOf(line) === "look") : undefined;
  const parts = single ? (["", shortened(single.job), " trains"] as const) : only(`All ${all} train`);
  return { tone: "good", parts, rest: rest(...others), worst: null };
}

const only = (words: string): [string, string, string] => [words, "", ""];

/** Longest name in a sentence; its ends tell most names apart. */
const MOST_CHARACTERS = 64;

const shortened = (name: string): string =>
  name.length > MOST_CHARACTERS ? `${name.slice(0, MOST_CHARACTERS - 20)}…${name.slice(-19)}` : name;

/** Returns what is wrong with a job: "llama-7b is 47% slower since 19:18:02: rank 21 is slow". */
function nowOf(line: Line): [string, string, string] {
  const name = shortened(line.job);
  if (isOld(line)) return ["", name, ` does not report${line.worst ? `; ${incidentWords(line)}` : ""}`];
  if (!line.worst) return ["", name, ` is ${line.state}`];
  const lost = lostOf(line);
  if (lost === null) return ["", name, `: ${factOf(line)}`];
  const loss = isAll(lost) ? "makes no progress" : `is ${percent(lost, 0)} slower`;
  return ["", name, ` ${loss} since ${clock(line.worst.began_at)}: ${factOf(line)}`];
}

/** Returns the words of a row's incident: what is lost, and why. What was known before does not pass for now. */
export function incidentWords(line: Line): string {
  const lost = lostOf(line);
  if (lost === null) return factOf(line);
  const loss = isAll(lost) ? "no progress" : `${percent(lost, 0)} slower`;
  return `${isOld(line) ? "last known: " : ""}${loss}: ${factOf(line)}`;
}

/** Whether the incidents of a job are from before its telemetry was lost. */
const isOld = (line: Line): boolean => line.state === "unknown" || line.state === "stale";

const factOf = (line: Line): string => clauses(line.worst?.summary ?? "")[0];

/** Returns the lost share of throughput; null if it is unknown or too small to say. */
function lostOf(line: Line): number | null {
  const lost = line.worst?.throughput_lost_ratio ?? null;
  return lost === null || lost < 0.005 ? null : lost;
}

const isAll = (lost: number): boolean => lost > 0.995;
