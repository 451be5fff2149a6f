/** Which jobs of the list are shown, in which order and groups; everything that is chosen is in the address. */
import type { Schemas } from "../../api/types";
import { lowerBound } from "../../charts/range";

export type Line = Schemas["JobLineAnswer"];

/** What a job asks of the reader: an alert is open, an incident without one, nothing is known, and so on. */
export type Need = "act" | "look" | "unknown" | "failed" | "training" | "ended";

/** The order of urgency: what needs action first comes first. */
export const NEEDS: readonly Need[] = ["act", "look", "unknown", "failed", "training", "ended"];

/** Returns what a job asks. Only a running job whose incidents are known, and none, counts as training. */
export function needOf(line: Line): Need {
  const open = line.open_incidents ?? 0;
  if (line.worst?.severity === "alert" || line.state === "degraded" || line.state === "stalled") return "act";
  if (open > 0) return "look";
  if (line.state === "failed") return "failed";
  if (line.state === "finished" || line.state === "interrupted") return "ended";
  return line.state === "running" && line.open_incidents !== null ? "training" : "unknown";
}

/** Returns the devices of jobs that make progress, and of all that have not ended. */
export function devicesOf(lines: readonly Line[]): { busy: number; known: number } {
  const sum = (isCounted: (line: Line) => boolean): number =>
    lines.reduce((devices, line) => devices + (isCounted(line) ? line.devices : 0), 0);
  return {
    busy: sum(({ state }) => state === "running" || state === "degraded"),
    known: sum(({ state }) => !["finished", "failed", "interrupted"].includes(state)),
  };
}

/** Choices of the state filter, each with its needs; other words are a job's state. */
const CHOICES: Readonly<Record<string, readonly Need[]>> = {
  open: ["act", "look"],
  unknown: ["unknown"],
  training: ["training", "look"],
  ended: ["failed", "ended"],
};

/** Whether a job is in a choice of the state filter; every job is in the empty one. */
export const isIn = (choice: string, line: Line): boolean =>
  !choice || (CHOICES[choice]?.includes(needOf(line)) ?? line.state === choice);

/** What sorts jobs: a value, and whether the largest comes first. An unknown value comes last. */
interface Order {
  words: string;
  value: (line: Line) => number | string | null;
  largestFirst: boolean;
}

const ORDERS = {
  need: { words: "what needs action", value: urgency, largestFirst: false },
  name: { words: "name", value: (line) => line.job.toLowerCase(), largestFirst: false },
  pace: { words: "step time", value: (line) => line.pace.at(-1) ?? null, largestFirst: true },
  goodput: { words: "goodput today", value: (line) => line.goodput.today, largestFirst: false },
  checkpoint: { words: "checkpoint age", value: (line) => negative(line.verified_checkpoint.saved_at), largestFirst: true },
  money: { words: "money today", value: (line) => line.cost_today?.amount ?? null, largestFirst: true },
  step: { words: "step", value: (line) => line.step, largestFirst: true },
  devices: { words: "devices", value: (line) => line.devices || null, largestFirst: true },
} satisfies Record<string, Order>;

/** The order of needs; within one, the job that loses the largest share of its throughput comes first. */
function urgency(line: Line): number {
  return NEEDS.indexOf(needOf(line)) - (line.worst?.throughput_lost_ratio ?? 0) / 2;
}

const negative = (value: number | null): number | null => (value === null ? null : -value);

export type OrderName = keyof typeof ORDERS;

/** Names of orders with their words. */
export const ORDER_WORDS = Object.entries(ORDERS).map(([name, order]) => [name as OrderName, order.words] as const);

const GROUPS = {
  state: (line: Line) => line.state,
  class: (line: Line) => line.job_class,
  project: (line: Line) => line.project,
  node: (line: Line) => (line.nodes.count > 1 ? "several nodes" : (line.nodes.first[0] ?? null)),
} as const;

export type GroupName = keyof typeof GROUPS;
export const GROUP_NAMES = Object.keys(GROUPS) as GroupName[];

/** What the reader wants to see. */
export interface Wanted {
  text: string;
  state: string;
  class: string;
  project: string;
  node: string;
  sort: OrderName;
  isReversed: boolean;
  group: GroupName | null;
}

/** Reads the address; an unknown order or group counts as none. */
export function wantedOf(query: URLSearchParams): Wanted {
  const sort = query.get("sort") ?? "";
  const name = sort.replace(/^-/, "");
  const group = query.get("group") ?? "";
  const text = (parameter: string): string => query.get(parameter) ?? "";
  return {
    text: text("q"),
    state: text("state"),
    class: text("class"),
    project: text("project"),
    node: text("node"),
    sort: Object.hasOwn(ORDERS, name) ? (name as OrderName) : "need",
    isReversed: sort.startsWith("-"),
    group: Object.hasOwn(GROUPS, group) ? (group as GroupName) : null,
  };
}

/** Returns the jobs that are wanted, without the state filter: the counts beside it are of these. */
export function matching(lines: readonly Line[], wanted: Wanted): Line[] {
  const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
  return lines.filter(
    (line) =>
      (!wanted.class || line.job_class === wanted.class) &&
      (!wanted.project || line.project === wanted.project) &&
      (!wanted.node || line.nodes.first.includes(wanted.node)) &&
      (!words.length || words.every((word) => textOf(line).includes(word))),
  );
}

const textOf = (line: Line): string =>
  [line.job, line.project, line.job_class, line.state, line.worst?.summary, ...line.nodes.first].join("\n").toLowerCase();

/** Returns the number of jobs whose nodes are not all named: whether the wanted one is among them is unknown. */
export const withUnnamedNodes = (lines: readonly Line[]): number =>
  lines.filter((line) => line.nodes.count > line.nodes.first.length).length;

/** Returns jobs in an order; equal ones are in the order of need, then of name. */
export function sorted(lines: readonly Line[], name: OrderName, isReversed: boolean): Line[] {
  const order: Order = ORDERS[name];
  const sign = order.largestFirst !== isReversed ? -1 : 1;
  const keyed = lines.map((line) => ({ line, value: order.value(line), need: NEEDS.indexOf(needOf(line)) }));
  keyed.sort(
    (one, other) =>
      compared(one.value, other.value, sign) || one.need - other.need || compared(one.line.job, other.line.job, 1),
  );
  return keyed.map(({ line }) => line);
}

function compared(one: number | string | null, other: number | string | null, sign: number): number {
  if (one === other) return 0;
  if (one === null || other === null) return one === null ? 1 : -1;
  return one < other ? -sign : sign;
}

/** A row of the list: a job, or the head of a group. */
export type Item = { line: Line } | { group: string | null; count: number; open: number };

/** Returns the rows; groups with the most urgent jobs come first, then by name, and unknown ones last. */
export function arranged(lines: readonly Line[], wanted: Wanted): Item[] {
  const ordered = sorted(lines.filter((line) => isIn(wanted.state, line)), wanted.sort, wanted.isReversed);
  if (wanted.group === null) return ordered.map((line) => ({ line }));
  const groups = [...membersOf(ordered, GROUPS[wanted.group])].map(([group, members]) => ({
    group,
    members,
    open: members.filter((line) => isIn("open", line)).length,
    urgency: Math.min(...members.map((line) => NEEDS.indexOf(needOf(line)))),
  }));
  groups.sort((one, other) => one.urgency - other.urgency || compared(one.group, other.group, 1));
  return groups.flatMap(({ group, members, open }) => [
    { group, count: members.length, open },
    ...members.map((line) => ({ line })),
  ]);
}

function membersOf(lines: readonly Line[], nameOf: (line: Line) => string | null): Map<string | null, Line[]> {
  const groups = new Map<string | null, Line[]>();
  for (const line of lines) {
    const members = groups.get(nameOf(line));
    if (members) members.push(line);
    else groups.set(nameOf(line), [line]);
  }
  return groups;
}

/** Returns the different values of a field, in order, for a choice. */
export const valuesOf = (lines: readonly Line[], field: (line: Line) => readonly (string | null)[]): string[] =>
  [...new Set(lines.flatMap(field))].filter((value): value is string => Boolean(value)).sort();

/** Returns where rows begin, and after the last the end of all; heights in pixels. */
export function tops(items: readonly Item[], rowHeight: number, groupHeight: number): Float64Array {
  const result = new Float64Array(items.length + 1);
  items.forEach((item, index) => {
    result[index + 1] = (result[index] ?? 0) + ("line" in item ? rowHeight : groupHeight);
  });
  return result;
}

/** Returns the first row that is visible between two heights, and the one after the last. */
export function visible(starts: Float64Array, from: number, to: number): [number, number] {
  const count = starts.length - 1;
  const first = Math.min(Math.max(lowerBound(starts, from + 1) - 1, 0), count);
  return [first, Math.min(Math.max(lowerBound(starts, to), first), count)];
}
