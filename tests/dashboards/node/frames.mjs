// Answers of Prometheus as the data frames that Grafana's data source for Prometheus makes of them.
import { FieldType, renderLegendFormat, toDataFrame } from "./grafana.mjs";

const value = (text) => (text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text));
const milliseconds = (seconds) => Math.round(seconds * 1000);
const samplesOf = (series) => series.values ?? [series.value];

function frameOfSeries(series, target) {
  const { __name__, ...labels } = series.metric;
  const legend = target.legendFormat ? renderLegendFormat(target.legendFormat, labels) : undefined;
  const samples = samplesOf(series);
  return toDataFrame({
    refId: target.refId,
    name: legend,
    fields: [
      { name: "Time", type: FieldType.time, config: {}, values: samples.map(([at]) => milliseconds(at)) },
      {
        name: "Value", type: FieldType.number, labels, config: legend === undefined ? {} : { displayNameFromDS: legend },
        values: samples.map(([, text]) => value(text)),
      },
    ],
  });
}

// One frame with a column for each label; `Value` is `Value #A` where a panel has several queries.
function frameOfTable(result, target, single) {
  const labels = [...new Set(result.flatMap((series) => Object.keys(series.metric)))].sort();
  const column = (name) => ({
    name, type: FieldType.string, config: {}, values: result.map((series) => series.metric[name] ?? ""),
  });
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: "Time", type: FieldType.time, config: {}, values: result.map((series) => milliseconds(series.value[0])) },
      ...labels.map(column),
      {
        name: single ? "Value" : `Value #${target.refId}`, type: FieldType.number, config: {},
        values: result.map((series) => value(series.value[1])),
      },
    ],
  });
}

// Buckets of a histogram count all below them: each becomes what lies between it and the one before.
function frameOfBuckets(result, target) {
  const bound = (series) => value(series.metric.le);
  const sorted = [...result].sort((one, other) => bound(one) - bound(other));
  const times = [...new Set(sorted.flatMap((series) => series.values.map(([at]) => milliseconds(at))))].sort((a, b) => a - b);
  const counts = sorted.map((series) => new Map(series.values.map(([at, text]) => [milliseconds(at), value(text)])));
  const between = (at, index) => {
    const here = counts[index].get(at), below = index ? counts[index - 1].get(at) : 0;
    return here === undefined || below === undefined ? null : here - below;
  };
  return toDataFrame({
    refId: target.refId,
    meta: { type: "heatmap-rows" },
    fields: [
      { name: "Time", type: FieldType.time, config: {}, values: times },
      ...sorted.map((series, index) => ({
        name: series.metric.le, type: FieldType.number, config: {}, labels: series.metric,
        values: times.map((at) => between(at, index)),
      })),
    ],
  });
}

export function framesOf(target, answer, single) {
  if (!answer.result.length) return [];
  if (target.format === "table") return [frameOfTable(answer.result, target, single)];
  if (target.format === "heatmap") return [frameOfBuckets(answer.result, target)];
  return answer.result.map((series) => frameOfSeries(series, target));
}
