/** The table behind charts, for those who do not see them. */
import { useSignal } from "@preact/signals";
import { number } from "../../words/quantities";
import { type ChartTable, markdownOf } from "./chart_table";
import { CopyButton } from "./command";
import { Moment } from "./moment";
import { Table } from "./table";

/** The words for a browser that does not let a page copy. */
export const NO_COPYING = "The browser does not allow it";

/** The table, opened on demand and made only then. */
export function TableBehind({ title, table }: { title: string; table: () => ChartTable }) {
  const isOpen = useSignal(false);
  return (
    <details class="small behind" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary class="quiet">{title}</summary>
      {isOpen.value && <Rows table={table()} />}
    </details>
  );
}

function Rows({ table }: { table: ChartTable }) {
  const { columns, rows, count } = table;
  const cells = rows.map((row) => row.map((cell) => (typeof cell === "string" ? cell : <Moment at={cell.at} />)));
  return (
    <div class="stack">
      <Table columns={columns} rows={cells} empty="No value is known." />
      <div class="row">
        <CopyButton label="Copy table" refused={NO_COPYING} text={() => markdownOf(table)} />
        {count > rows.length && (
          <span class="quiet">
            {number(rows.length, 0)} of {number(count, 0)} rows.
          </span>
        )}
      </div>
    </div>
  );
}
