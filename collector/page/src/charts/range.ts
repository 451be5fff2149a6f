/** The axis that all tracks of a job share: steps or time, and the way from one to the other. */

/** What the axis counts. */
export type AxisKind = "step" | "time";

/** What an axis of several runs counts, too: seconds since the first step of each. */
export type AnyAxis = AxisKind | "since";

/** Ends of an axis, in its own unit: steps, or Unix seconds. */
export interface Span {
  min: number;
  max: number;
}

/** Steps with the moments at which they ended, both ascending. */
export interface StepTimes {
  step: readonly number[];
  at: readonly number[];
}

/** Returns the step at a moment, between the known ones in a straight line. */
export const stepAt = (times: StepTimes, at: number): number => between(times.at, times.step, at);

/** Returns the moment of a step, between the known ones in a straight line. */
export const momentOf = (times: StepTimes, step: number): number => between(times.step, times.at, step);

function between(from: readonly number[], to: readonly number[], value: number): number {
  const count = from.length;
  if (!count) return value;
  const index = Math.min(Math.max(lowerBound(from, value), 1), count - 1);
  const [x0 = 0, x1 = 0] = [from[index - 1], from[index]];
  const [y0 = 0, y1 = 0] = [to[index - 1], to[index]];
  if (count === 1 || x1 === x0) return to[0] ?? value;
  // Beyond the ends nothing is known but the ends: no line leads on.
  const share = Math.min(1, Math.max(0, (value - x0) / (x1 - x0)));
  return y0 + share * (y1 - y0);
}

/** Returns the first index whose value is not below `value`; the values ascend. */
export function lowerBound(values: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns round positions for labels: at most `most`, spaced 1, 2 or 5 times a power of ten. */
export function roundTicks({ min, max }: Span, most: number, whole: boolean): number[] {
  if (!(max > min)) return [min];
  const raw = (max - min) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 5, 10].map((factor) => factor * power).find((length) => length >= raw) ?? raw;
  return spaced(min, max, whole ? Math.max(1, size) : size);
}

const TIME_SIZES = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800,
  604_800, 2_592_000,
] as const;

/** Returns round moments for labels, in the reader's time zone. */
export function timeTicks({ min, max }: Span, most: number): number[] {
  const raw = (max - min) / Math.max(1, most);
  const size = TIME_SIZES.find((length) => length >= raw) ?? 2_592_000;
  const shift = 60 * new Date(1000 * min).getTimezoneOffset();
  return spaced(min - shift, max - shift, size).map((value) => value + shift);
}

/** Returns round spans for labels of an axis that counts seconds. */
export function spanTicks({ min, max }: Span, most: number): number[] {
  const raw = (max - min) / Math.max(1, most);
  return spaced(min, max, TIME_SIZES.find((length) => length >= raw) ?? 2_592_000);
}

/** The label of a span on an axis of this length: "5:20" is minutes and seconds, "3:05 h" hours and minutes. */
export function spanLabel(seconds: number, { min, max }: Span): string {
  const pad = (value: number): string => String(value).padStart(2, "0");
  const whole = Math.round(seconds);
  if (max - min < 7_200) return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
  const minutes = Math.round(whole / 60);
  return max - min < 259_200 ? `${Math.floor(minutes / 60)}:${pad(minutes % 60)} h` : `${Number((whole / 86_400).toFixed(1))} d`;
}

function spaced(min: number, max: number, size: number): number[] {
  const ticks: number[] = [];
  for (let index = Math.ceil(min / size); index * size <= max && ticks.length < 100; index += 1) {
    ticks.push(index * size);
  }
  return ticks;
}

/** The label of a moment on an axis of this length. */
export function timeLabel(at: number, { min, max }: Span): string {
  const moment = new Date(1000 * at);
  const pad = (value: number): string => String(value).padStart(2, "0");
  const day = `${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}`;
  const time = `${pad(moment.getHours())}:${pad(moment.getMinutes())}`;
  if (max - min < 600) return `${time}:${pad(moment.getSeconds())}`;
  return max - min < 86_400 ? time : max - min < 604_800 ? `${day} ${time}` : day;
}
