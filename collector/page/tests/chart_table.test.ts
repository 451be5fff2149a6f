import assert from "node:assert/strict";
import { test } from "node:test";
import { markdownOf, MOST_ROWS, trackTable } from "../src/views/shared/chart_table";

const line = (label: string, values: (number | null)[]) => ({ label, colour: "", values });
const format = (value: number): string => `${value} s`;

test("a table has the places of all tracks in view, the last one first", () => {
  const parts = [
    { title: "loss", data: { x: [1, 2, 3], lines: [line("loss", [5, 4, 3]), line("loss of old", [null, 6, 5])] }, format: String },
    { title: "step time", data: { x: [2, 4], lines: [line("seconds", [1, null])] }, format },
  ];
  const table = trackTable(parts, "step", { min: 2, max: 4 });
  assert.deepEqual(table.columns, ["Step", "loss", "loss of old", "step time"]);
  assert.deepEqual(table.rows, [["4", "", "", "unknown"], ["3", "3", "5", ""], ["2", "4", "6", "1 s"]]);
  assert.equal(table.count, 3);
});

test("a long table keeps its last rows and says how many there are", () => {
  const x = Array.from({ length: 1_000 }, (_, index) => 9_999_000 + index);
  const { rows, count } = trackTable([{ title: "loss", data: { x, lines: [line("", x)] }, format: String }], "step", { min: 0, max: 1e9 });
  assert.deepEqual([rows.length, count, rows[0]?.[0]], [MOST_ROWS, 1_000, "9,999,999"]);
});

test("compared runs are named, and time since their start is a span", () => {
  const data = { x: [90], lines: [line("a", [1]), line("b", [2])] };
  const table = trackTable([{ title: "loss", data, format: String }], "since", { min: 0, max: 100 });
  assert.deepEqual([table.columns, table.rows], [["Elapsed", "loss: a", "loss: b"], [["1:30", "1", "2"]]]);
});

test("a name cannot form markup in Markdown, and a moment is in UTC", () => {
  const table = { columns: ["Time", "a|b <img>"], rows: [[{ at: 0 }, "[x](y)\nz"]], count: 1 };
  assert.equal(markdownOf(table), "| Time | a\\|b \\<img\\> |\n| --- | ---: |\n| 1970-01-01 00:00:00 UTC | \\[x\\](y) z |\n");
});
