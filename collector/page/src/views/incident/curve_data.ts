/** The line and the marks of an incident's curve. Pure. */
import type { Schemas } from "../../api/types";
import type { Mark } from "../../charts/frame";
import type { Span } from "../../charts/range";
import type { TrackData } from "../../charts/track_data";
import { ascending } from "./rank_data";

type Incident = Schemas["IncidentAnswer"];

/** Returns the first series as a line with its band; a moment that is no later than the one before is left out. */
export function dataOf(answer: Schemas["SeriesAnswer"] | null): TrackData {
  const series = answer?.series.find((one) => !one.evaluation) ?? answer?.series[0];
  const at = series?.at ?? [];
  const kept = ascending(at);
  const x = kept.map((index) => at[index] ?? 0);
  const column = (values: (number | null)[] = []): (number | null)[] => kept.map((index) => values[index] ?? null);
  const line = { label: series?.name ?? "", colour: "--data", values: column(series?.mean) };
  return { x, lines: [{ ...line, low: column(series?.min), high: column(series?.max) }] };
}

/** Returns the incident's own mark, then those of other events. */
export function marksOf(incident: Incident, answer: Schemas["MarksAnswer"] | null): Mark[] {
  const began = incident.began_at ?? incident.opened_at;
  const own: Mark = { kind: "incident", x: began, words: "this incident began", bad: true, id: null };
  const others = (answer?.marks ?? []).flatMap((mark) =>
    mark.at === null || mark.id === incident.id
      ? []
      : [{ kind: mark.kind, x: mark.at, words: mark.words, bad: isBad(mark), id: mark.id }],
  );
  return [own, ...others];
}

const isBad = (mark: Schemas["Mark"]): boolean =>
  mark.kind === "incident" ? mark.state === "open" : mark.kind === "checkpoint" && mark.state === "damaged";

/** Returns the range that holds all points, and the incident's beginning and end. */
export function spanOf(incident: Incident, x: readonly number[]): Span {
  const began = incident.began_at ?? incident.opened_at;
  const ended = incident.resolved_at ?? began;
  return { min: Math.min(began, x[0] ?? began), max: Math.max(began, ended, x.at(-1) ?? began) };
}
