/** A table from columns and rows. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Wide } from "./wide";

interface TableProps {
  id?: string;
  columns: readonly string[];
  rows: readonly (readonly ComponentChildren[])[];
  /** What stands in place of a table without rows. */
  empty?: ComponentChildren;
}

/** A table; without rows, the words for that. */
export function Table({ id, columns, rows, empty }: TableProps) {
  if (!rows.length) return <p class="quiet">{empty ?? "None so far."}</p>;
  return (
    <Wide label={`Table: ${columns.filter(Boolean).join(", ")}`}>
      <table id={id}>
        <thead>
          <tr>
            {columns.map((words) => (
              <th key={words}>{words}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, index) => (
            <tr key={index}>
              {cells.map((cell, column) => (
                <td key={columns[column]}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

interface FoldProps {
  id: string;
  title: string;
  note?: string;
  children: () => ComponentChildren;
}

/** A part of a page that opens on demand, and by its anchor in the address; made only when it is open. */
export function Fold({ id, title, note, children }: FoldProps) {
  const isOpen = useSignal(location.hash === `#${id}`);
  return (
    <details class="panel" id={id} open={isOpen.value} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>
        {title} {note && <span class="quiet small">{note}</span>}
      </summary>
      {isOpen.value && <div class="stack">{children()}</div>}
    </details>
  );
}
