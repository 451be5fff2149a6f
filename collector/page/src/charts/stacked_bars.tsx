/** Device-time by cause as bars of stacked parts. */
import { CAUSES } from "../theme/colours";
import { percent } from "../words/quantities";

/** A part of a bar; its name is a cause. */
export interface BarPart {
  name: string;
  /** Share of the bar's whole width, 0 to 1. */
  share: number;
}

/** A column of upright bars: its name, and its parts from below. */
export interface Column {
  name: string;
  words: string;
  parts: readonly BarPart[];
}

/** Upright bars side by side; a column without parts stays empty. */
export function Columns({ columns, label }: { columns: readonly Column[]; label: string }) {
  return (
    <svg class="columns" viewBox={`0 0 ${10 * columns.length} 100`} preserveAspectRatio="none" role="img" aria-label={label}>
      {columns.map(({ name, words, parts }, place) => {
        let top = 100;
        return (
          <g key={name}>
            <title>{words}</title>
            {!parts.length && <rect class="unknown-column" x={10 * place + 1} y="0" width="8" height="100" />}
            {parts.map((part) => {
              top -= 100 * part.share;
              return <rect key={part.name} x={10 * place + 1} y={top} width="8" height={100 * part.share} fill={CAUSES[part.name] ?? "none"} />;
            })}
          </g>
        );
      })}
    </svg>
  );
}

/** One bar; its parts lie beside each other, in their order. */
export function StackedBar({ parts }: { parts: readonly BarPart[] }) {
  let left = 0;
  const placed = parts.map((part) => {
    const x = left;
    left += 100 * part.share;
    return { ...part, x };
  });
  const words = parts.map(({ name, share }) => `${name.replaceAll("-", " ")} ${percent(share, 0)}`).join(", ");
  return (
    <svg class="shares" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label={words}>
      {placed.map(({ name, share, x }) => (
        <rect key={name} x={x} width={100 * share} height="12" fill={CAUSES[name] ?? "none"}>
          <title>{`${name.replaceAll("-", " ")}: ${percent(share)}`}</title>
        </rect>
      ))}
    </svg>
  );
}
