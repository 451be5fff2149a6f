/** A rank's seconds beside those of its neighbours, from the matrix. Pure. */
import type { Schemas } from "../../api/types";
import type { TrackData } from "../../charts/track_data";

type Incident = Schemas["IncidentAnswer"];
type Matrix = Schemas["MatrixAnswer"];

const PHASES = ["data", "forward", "backward", "optimizer"];
/** Ranks on either side whose median a rank is compared with. */
const NEIGHBOURS = 31;
/** Steps shown before the incident. */
const LEAD_STEPS = 200;
const COLUMNS = 200;

/** The time of a step in which a rank is slow: its phase, else its whole self time. */
export const partOf = (incident: Incident): string => (PHASES.includes(incident.phase) ? incident.phase : "self_time");

/** Returns the query of the matrix around a rank; null for an incident without one rank. */
export function matrixQuery(incident: Incident): string | null {
  if (incident.rank < 0) return null;
  return new URLSearchParams({
    metric: partOf(incident),
    first: String(Math.max(0, incident.rank - NEIGHBOURS)),
    last: String(incident.rank + NEIGHBOURS),
    rows: String(2 * NEIGHBOURS + 1),
    columns: String(COLUMNS),
    from_step: String(Math.max(0, incident.since_step - LEAD_STEPS)),
  }).toString();
}

/**
 * Returns the rank's line and its neighbours' median: seconds [[1, 1], [3, 2], [2, 2]] for rank 1 give
 * [3, 2] and [1.5, 1.5]. Null without the rank, or where another attempt runs by now.
 */
export function rankLines(matrix: Matrix | null, incident: Incident): TrackData | null {
  if (!matrix || matrix.attempt !== incident.attempt) return null;
  const own = matrix.rows.findIndex((row) => row.first === incident.rank && row.last === incident.rank);
  const values = matrix.seconds[own];
  if (!values) return null;
  const others = matrix.seconds.filter((_, index) => index !== own);
  const columns = ascending(matrix.at);
  const peers = columns.map((column) => median(others.map((row) => row[column] ?? null)));
  return {
    x: columns.map((column) => matrix.at[column] ?? 0),
    lines: [
      { label: `rank ${incident.rank}`, colour: "--cause-straggling", values: columns.map((column) => values[column] ?? null) },
      { label: `median of ${others.length} neighbours`, colour: "--data", values: peers },
    ],
  };
}

/** Returns the indices of known moments, each later than the one before. */
export function ascending(at: readonly (number | null)[]): number[] {
  let last = Number.NEGATIVE_INFINITY;
  return at.flatMap((moment, index) => {
    if (moment === null || moment <= last) return [];
    last = moment;
    return [index];
  });
}

function median(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null).sort((one, other) => one - other);
  const middle = known.length >> 1;
  const upper = known[middle];
  if (upper === undefined) return null;
  return known.length % 2 ? upper : (upper + (known[middle - 1] ?? upper)) / 2;
}
