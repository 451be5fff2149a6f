/** The table behind charts, and the same as Markdown. Pure. */
import { type AnyAxis, type Span, spanLabel } from "../../charts/range";
import type { TrackData } from "../../charts/track_data";
import { utc } from "../../words/moments";
import { number, UNKNOWN } from "../../words/quantities";

/** Words, or a moment in Unix seconds. */
export type Cell = string | { at: number | null };

/** Columns and rows, the newest or last one first; `count` is the number of rows before any were left out. */
export interface ChartTable {
  columns: string[];
  rows: Cell[][];
  count: number;
}

/** The most rows of a table: more are not read. */
export const MOST_ROWS = 200;

/** What a table needs of a track. */
export interface TrackPart {
  title: string;
  data: TrackData;
  format: (value: number) => string;
}

const HEADS: Readonly<Record<AnyAxis, string>> = { step: "Step", time: "Time", since: "Elapsed" };

/** Returns the places of tracks on their axis within a span, the last one first, with the values of all lines there. */
export function trackTable(parts: readonly TrackPart[], kind: AnyAxis, span: Span): ChartTable {
  const isShown = (x: number): boolean => x >= span.min && x <= span.max;
  const places = [...new Set(parts.flatMap(({ data }) => data.x.filter(isShown)))].sort((one, other) => other - one);
  const columns = parts.flatMap(({ title, data, format }) => {
    const index = new Map(data.x.map((x, position) => [x, position]));
    const isOnly = data.lines.length === 1;
    return data.lines.map(({ label, values }) => ({
      title: isOnly ? title : data.stacked || label.startsWith(title) ? label : `${title}: ${label}`,
      words: (x: number): string => {
        const position = index.get(x);
        const value = position === undefined ? undefined : values[position];
        // Lines that share their places have none of their own at most of them.
        return value === undefined || value === null ? (isOnly && value === null ? UNKNOWN : "") : format(value);
      },
    }));
  });
  return {
    columns: [HEADS[kind], ...columns.map(({ title }) => title)],
    rows: places.slice(0, MOST_ROWS).map((x) => [placeCell(kind, x, span), ...columns.map(({ words }) => words(x))]),
    count: places.length,
  };
}

function placeCell(kind: AnyAxis, x: number, span: Span): Cell {
  if (kind === "time") return { at: x };
  return kind === "step" ? number(Math.round(x), 0) : spanLabel(x, span);
}

/** Returns a table as Markdown: moments in UTC, and numbers on the right. */
export function markdownOf({ columns, rows }: ChartTable): string {
  // A job's text cannot form markup, nor end its cell.
  const plain = (text: string): string => text.replace(/\s+/g, " ").replace(/[\\`*_{}[\]<>|~]/g, "\\$&");
  const line = (cells: readonly string[]): string => `| ${cells.map(plain).join(" | ")} |`;
  const words = (cell: Cell): string => (typeof cell === "string" ? cell : utc(cell.at));
  const ends = columns.map((_, index) => (index ? "---:" : "---"));
  return [line(columns), line(ends), ...rows.map((cells) => line(cells.map(words)))].join("\n") + "\n";
}
