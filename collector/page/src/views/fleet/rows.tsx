/** The list: only rows that are visible are in the document, however many jobs there are. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { setQuery } from "../../app/place";
import { counted } from "../../words/quantities";
import { type Item, type Line, tops, visible, type Wanted } from "./arrange";
import { COLUMNS } from "./cells";
import { useCursor } from "./cursor";

/** Rows before the sizes are known. */
const FIRST_ROWS = 30;
/** Rows that are drawn beyond the edges of the window, in pixels: a fast wheel shows no hole. */
const MARGIN = 400;

/** The jobs as a table; on a narrow page each is a card. */
export function Rows({ items, wanted, hasMoney }: { items: readonly Item[]; wanted: Wanted; hasMoney: boolean }) {
  const body = useRef<HTMLTableSectionElement>(null);
  const heights = useSignal<[number, number]>([1, 1]);
  const range = useSignal<[number, number]>([0, FIRST_ROWS]);
  const starts = useMemo(() => tops(items, ...heights.value), [items, heights.value]);
  const look = (): void => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    const next = visible(starts, -top - MARGIN, innerHeight - top + MARGIN);
    if (next.some((edge, index) => edge !== range.peek()[index])) range.value = next;
  };
  useLayoutEffect(() => {
    const measured = measure(body.current);
    if (measured.some((height, index) => height !== heights.peek()[index])) heights.value = measured;
    else look();
  }, [starts]);
  useEffect(() => {
    const later = (): void => void requestAnimationFrame(look);
    const resized = (): void => {
      heights.value = measure(body.current);
      later();
    };
    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", resized);
    return () => {
      removeEventListener("scroll", later);
      removeEventListener("resize", resized);
    };
  }, [starts]);
  const cursor = useCursor({ items, starts, body, look });
  const columns = COLUMNS.filter((column) => hasMoney || column.name !== "money");
  const [first, end] = range.value;
  return (
    <table id="jobs" class={hasMoney ? "panel fleet" : "panel fleet without-money"} role="table" aria-label="Jobs" aria-rowcount={items.length + 1}>
      <thead role="rowgroup">
        <tr role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <Head key={column.name} column={column} wanted={wanted} />
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup" ref={body} style={{ height: `${starts.at(-1)}px`, paddingTop: `${starts[Math.min(first, items.length)] ?? 0}px` }}>
        {items.slice(first, end).map((item, index) =>
          "line" in item ? (
            <Row key={item.line.job} line={item.line} index={first + index} columns={columns} isChosen={cursor.value === item.line.job} />
          ) : (
            <GroupHead key={`group ${item.group}`} item={item} index={first + index} name={wanted.group ?? ""} />
          ),
        )}
      </tbody>
    </table>
  );
}

/** Reads the heights of a row and of a group's head from the style sheet, in pixels. */
function measure(element: HTMLElement | null): [number, number] {
  if (!element) return [1, 1];
  const style = getComputedStyle(element);
  const height = (name: string): number => Number.parseFloat(style.getPropertyValue(name)) || 1;
  return [height("--row"), height("--group")];
}

function Head({ column, wanted }: { column: (typeof COLUMNS)[number]; wanted: Wanted }) {
  const isHere = wanted.sort === column.sort;
  const direction = wanted.isReversed ? "descending" : "ascending";
  const choose = (): void => setQuery({ sort: isHere && !wanted.isReversed ? `-${column.sort}` : column.sort === "need" ? null : column.sort });
  return (
    <th role="columnheader" class={`c-${column.name}`} aria-sort={isHere ? direction : "none"}>
      <button type="button" onClick={choose}>
        {column.head}
        {isHere && <span aria-hidden="true">{wanted.isReversed ? " ▴" : " ▾"}</span>}
      </button>
    </th>
  );
}

interface RowProps {
  line: Line;
  index: number;
  columns: typeof COLUMNS;
  isChosen: boolean;
}

function Row({ line, index, columns, isChosen }: RowProps) {
  return (
    <tr role="row" aria-rowindex={index + 2} data-job={line.job} class={isChosen ? "chosen" : undefined}>
      {columns.map((column) => (
        <td key={column.name} role="cell" class={`c-${column.name}`} data-head={column.head}>
          {column.cell(line)}
        </td>
      ))}
    </tr>
  );
}

function GroupHead({ item, index, name }: { item: Exclude<Item, { line: Line }>; index: number; name: string }) {
  return (
    <tr role="row" aria-rowindex={index + 2} class="group">
      <td role="cell">
        <b>
          <bdi>{item.group ?? `unknown ${name}`}</bdi>
        </b>{" "}
        <span class="quiet">
          {counted(item.count, "job")}
          {item.open > 0 && `, ${item.open} with an open incident`}
        </span>
      </td>
    </tr>
  );
}
