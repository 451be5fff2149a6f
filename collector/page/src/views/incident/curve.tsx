/** The curve in which an incident shows, with its start and other events as marks. */
import { useMemo } from "preact/hooks";
import { changes, useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { seconds, short } from "../../words/quantities";
import { type Part, Plot } from "../shared/plot";
import { dataOf, marksOf, spanOf } from "./curve_data";
import { matrixQuery, partOf, rankLines } from "./rank_data";
import { metricOf, rangeOf } from "./story";

type Incident = Schemas["IncidentAnswer"];
const POINTS = 400;
/** Points of the newest steps come with each event; a curve this wide needs them less often. */
const CURVE_MS = 10_000;
const HEIGHT = 150;
const TITLES: Record<string, string> = { step_seconds: "step time", loss: "loss" };

/** The curve, or why there is none. */
export function Curve({ incident }: { incident: Incident }) {
  const { from, to } = rangeOf(incident);
  const ends = `from=${from}${to === null ? "" : `&to=${to}`}&points=${POINTS}`;
  const metric = metricOf(incident.kind);
  const job = `/v1/jobs/${encodeURIComponent(incident.job)}`;
  const renewal = { topic: to === null ? `job:${incident.job}` : null, leastMs: CURVE_MS };
  const series = useAnswer<Schemas["SeriesAnswer"]>(`${job}/series?metric=${metric}&${ends}`, renewal).value;
  const marks = useAnswer<Schemas["MarksAnswer"]>(`${job}/marks?${ends}`, { ...renewal, concerns: changes("marks") }).value;
  const asked = matrixQuery(incident);
  const matrix = useAnswer<Schemas["MatrixAnswer"]>(asked && `${job}/matrix?${asked}`, {
    ...renewal,
    concerns: changes("matrix"),
  }).value;
  const data = useMemo(() => dataOf(series.value), [series.value]);
  const rank = useMemo(() => rankLines(matrix.value, incident), [matrix.value, incident.id]);
  const drawn = useMemo(() => marksOf(incident, marks.value), [incident.id, marks.value]);
  if (series.failure && !series.value) return <p class="quiet">No curve: {series.failure.message}.</p>;
  if (!series.value) return <p class="quiet">Loading the curve.</p>;
  if (!data.x.length) return <p class="quiet">No {TITLES[metric]} is known from that time.</p>;
  const parts: Part[] = [
    { title: TITLES[metric] ?? metric, data, format: metric === "loss" ? short : seconds, height: HEIGHT },
    ...(rank ? [{ title: `${partOf(incident).replaceAll("_", " ")} a step`, data: rank, format: seconds, height: HEIGHT }] : []),
  ];
  const about = `${incident.job}: ${incident.kind.replaceAll("_", " ")}`;
  return <Plot id="curve" about={about} parts={parts} kind="time" whole={spanOf(incident, data.x)} marks={drawn} />;
}
