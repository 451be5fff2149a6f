/** Where an axis has labels, and their words. Pure. */
import { type AnyAxis, roundTicks, type Span, spanLabel, spanTicks, timeLabel, timeTicks } from "./range";

/** Pixels of a digit or letter, of a mark or space, between two labels, and at least for a label. */
const DIGIT = 7.6;
const MARK = 4.2;
const BETWEEN = 8;
const LEAST_LABEL = 64;

const TICKS = { step: (span: Span, most: number) => roundTicks(span, most, true), time: timeTicks, since: spanTicks } as const;
const LABELS: Record<AnyAxis, (value: number, span: Span) => string> = {
  step: (value) => Math.round(value).toLocaleString("en"),
  time: timeLabel,
  since: spanLabel,
};

/** Returns the places of labels that fit beside each other, and their words. */
export function labels(kind: AnyAxis, span: Span, width: number): { at: number; words: string }[] {
  const words = (value: number): string => LABELS[kind](value, span);
  const last = words(span.max);
  const marks = last.match(/[-:., ]/g)?.length ?? 0;
  const space = Math.max(LEAST_LABEL, BETWEEN + DIGIT * (last.length - marks) + MARK * marks);
  return TICKS[kind](span, Math.max(2, width / space)).map((at) => ({ at, words: words(at) }));
}
