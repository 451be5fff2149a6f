/** Moves through the list with the arrow keys; Enter opens a job. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { go, jobPath } from "../../app/place";
import type { Item } from "./arrange";

/** The list, and how to draw the rows that are visible after a move. */
interface List {
  items: readonly Item[];
  starts: Float64Array;
  body: RefObject<HTMLTableSectionElement | null>;
  look: () => void;
}

/** Space that stays free above and below the row, in pixels. */
const EDGE = 60;

/** Returns the name of the job on which the keys are; it stays on it where the list is arranged anew. */
export function useCursor(list: List): ReadonlySignal<string> {
  const chosen = useSignal("");
  const isOnRow = useRef(false);
  // A row that moves in the document loses the focus without a word.
  const focus = (): void => {
    if (!isOnRow.current || document.activeElement?.closest("tr")?.dataset.job === chosen.peek()) return;
    const row = [...(list.body.current?.rows ?? [])].find((child) => child.dataset.job === chosen.peek());
    row?.querySelector<HTMLElement>("a")?.focus({ preventScroll: true });
  };
  useLayoutEffect(focus);
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (event.key === "Enter" && event.target === document.body && chosen.peek()) go(jobPath(chosen.peek()));
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by || !movesFrom(event.target, by)) return;
      event.preventDefault();
      const index = next(list.items, chosen.peek(), by);
      const item = list.items[index];
      if (!item || !("line" in item)) return;
      chosen.value = item.line.job;
      isOnRow.current = true;
      show(list, index);
      focus();
    };
    const focused = (event: FocusEvent): void => {
      const row = event.target instanceof Element ? event.target.closest<HTMLElement>("tr[data-job]") : null;
      isOnRow.current = row !== null;
      if (row?.dataset.job) chosen.value = row.dataset.job;
    };
    const left = (): void => {
      isOnRow.current = false;
    };
    addEventListener("keydown", pressed);
    addEventListener("focusin", focused);
    addEventListener("pointerdown", left);
    return () => {
      removeEventListener("pointerdown", left);
      removeEventListener("keydown", pressed);
      removeEventListener("focusin", focused);
    };
  });
  return chosen;
}

/** Fields and menus have arrows of their own; down leads from the filter to the list. */
function movesFrom(target: EventTarget | null, by: number): boolean {
  if (!(target instanceof Element) || target.closest(".search, select, textarea, [list]")) return false;
  return !target.closest("input") || (target.closest(".filter") !== null && by > 0);
}

/** Returns the row of the next job, over heads of groups; at an end, the same row. */
function next(items: readonly Item[], job: string, by: number): number {
  const from = items.findIndex((item) => "line" in item && item.line.job === job);
  for (let index = from < 0 ? (by > 0 ? 0 : -1) : from + by; index >= 0 && index < items.length; index += by) {
    if ("line" in (items[index] ?? {})) return index;
  }
  return from;
}

function show(list: List, index: number): void {
  const top = (list.body.current?.getBoundingClientRect().top ?? 0) + (list.starts[index] ?? 0);
  const bottom = top + (list.starts[index + 1] ?? 0) - (list.starts[index] ?? 0);
  if (top < EDGE) scrollBy(0, top - EDGE);
  else if (bottom > innerHeight - EDGE) scrollBy(0, bottom - innerHeight + EDGE);
  list.look();
}
