/** Collectives of the newest steps. */
import { changes, useAnswer } from "../../../api/answer";
import type { Schemas } from "../../../api/types";
import { bytes, number, percent, seconds, UNKNOWN } from "../../../words/quantities";
import { Loaded } from "../../shared/loading";
import { Table } from "../../shared/table";

const COLUMNS = [
  "Operation", "Ranks", "Calls", "Size", "Blocked", "Transfer", "Arrival skew", "Last arriver", "Bus bandwidth",
] as const;

/** The table of collectives, asked for when it is shown. */
export function Collectives({ job }: { job: string }) {
  const answer = useAnswer<Schemas["CollectivesAnswer"]>(`/v1/jobs/${encodeURIComponent(job)}/collectives`, {
    topic: `job:${job}`,
    concerns: changes("collectives"),
    leastMs: 5_000,
  }).value;
  return (
    <Loaded answer={answer}>
      {(value) => (
        <>
          <p class="quiet small">
            Transfer is the blocked time of the last member to arrive, which waits least. Arrival skew is what the other
            members are blocked beyond it. Values are per step, means over the members. The last arriver may itself have
            waited for another pipeline stage.
          </p>
          <Table
            id="collectives-table"
            columns={COLUMNS}
            rows={value.collectives.map(rowOf)}
            empty="No collective has been received for the newest steps."
          />
          <p class="quiet small">{noteOf(value)}</p>
        </>
      )}
    </Loaded>
  );
}

function rowOf(item: Schemas["Collective"]): string[] {
  return [
    item.op,
    item.ranks ? `ranks ${item.ranks}` : `group ${item.group}`,
    number(item.calls, 0),
    bytes(item.bytes),
    seconds(item.exposed_seconds),
    seconds(item.transfer_seconds),
    seconds(item.arrival_skew_seconds),
    lastArriver(item),
    item.bus_bytes_per_second === null ? UNKNOWN : `${bytes(item.bus_bytes_per_second)}/s`,
  ];
}

function lastArriver(item: Schemas["Collective"]): string {
  if (item.last_arriver !== null) return `rank ${item.last_arriver} (${percent(item.last_arriver_ratio, 0)} of the skew)`;
  return item.arrival_skew_seconds === 0 ? "none" : UNKNOWN;
}

function noteOf(answer: Schemas["CollectivesAnswer"]): string {
  const lines = answer.collectives;
  const unknown = lines.filter((item) => item.evaluated_steps < item.steps).length;
  const notes = [
    unknown
      ? `In ${unknown} of ${lines.length} lines some steps are unknown: a member is missing, or the operation is point to point.`
      : "",
    lines.length ? `Timed on the ${answer.clock}.` : "",
    answer.left_out ? `${answer.left_out} more lines that blocked less are not shown.` : "",
  ];
  return notes.filter(Boolean).join(" ");
}
