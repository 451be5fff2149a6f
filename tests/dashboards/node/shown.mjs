// node shown.mjs RECORDING SHOWN: what Grafana would show of each panel, and what in a panel does not fit its data.
import { readFileSync, writeFileSync } from "fs";
import { framesOf } from "./frames.mjs";
import {
  FieldType, applyFieldOverrides, fieldMatchers, formattedValueToString, getFieldDisplayName, getFieldDisplayValues,
  getValueFormat, getValueFormats, settings, theme, transformDataFrame, transformerIds,
} from "./grafana.mjs";

const UNITS = new Set(getValueFormats().flatMap((group) => group.submenu.map((each) => each.value)));
const asIs = (text) => text;
const shownText = (display) => formattedValueToString(display).trim();

function transformed(frames, transformations) {
  return new Promise((resolve, reject) =>
    transformDataFrame(transformations ?? [], frames, { interpolate: asIs }).subscribe({ next: resolve, error: reject }));
}

// The panels of Grafana bring these; a dashboard's JSON has them only where it wants something else.
function withDefaults(panel) {
  const { defaults, overrides } = panel.fieldConfig;
  const color = { mode: panel.type === "timeseries" ? "palette-classic" : "thresholds" };
  const thresholds = { mode: "absolute", steps: [{ value: -Infinity, color: "text" }] };
  const steps = (given) => ({ ...given, steps: given.steps.map((each) => ({ ...each, value: each.value ?? -Infinity })) });
  return { defaults: { color, ...defaults, thresholds: steps(defaults.thresholds ?? thresholds) }, overrides };
}

function* unitsNotKnown(panel) {
  const units = [panel.fieldConfig.defaults.unit, panel.options?.yAxis?.unit].filter(Boolean);
  for (const unit of units) if (!UNITS.has(unit)) yield `unit ${unit} is none of Grafana's`;
}

function* overridesWithoutField(panel, frames) {
  for (const { matcher, properties } of panel.fieldConfig.overrides ?? []) {
    const known = fieldMatchers.getIfExists(matcher.id);
    const matches = known?.get(matcher.options);
    if (!known) yield `override matches by ${matcher.id}, which Grafana does not know`;
    else if (!frames.some((frame) => frame.fields.some((field) => matches(field, frame, frames)))) {
      yield `override of ${JSON.stringify(matcher.options)} matches no field`;
    }
    for (const { id } of properties) if (!settings.getIfExists(id)) yield `override sets ${id}, which is not a setting`;
  }
}

function* transformationsThatDoNotFit(panel, before, after) {
  const names = (frames) => new Set(frames.flatMap((frame) => frame.fields.map((field) => field.config.displayName ?? field.name)));
  const had = names(before), has = names(after);
  for (const { id, options } of panel.transformations ?? []) {
    if (!transformerIds.has(id)) yield `transformation ${id} is none of Grafana's`;
    for (const [name, heading] of Object.entries(options?.renameByName ?? {})) {
      if (!had.has(name)) yield `column ${name} is renamed and is not there`;
      else if (!has.has(heading)) yield `column ${heading} is not shown`;
    }
    const headings = new Set(Object.values(options?.renameByName ?? {}));
    for (const name of id === "organize" ? has : []) if (!headings.has(name)) yield `column ${name} has no heading`;
  }
}

function* textsThatSayNothing(panel) {
  const texts = [...(panel.numbers ?? []), ...(panel.series ?? []), ...(panel.rows ?? []).flat()].map((each) => each.text);
  for (const text of texts) if (/NaN|undefined|null|Infinity|^$/.test(text)) yield `shows ${JSON.stringify(text)}`;
}

function numbers(panel, frames, config) {
  const options = { data: frames, fieldConfig: config, reduceOptions: panel.options.reduceOptions, replaceVariables: asIs, theme };
  return getFieldDisplayValues({ ...options, timeZone: "utc" })
    .map(({ display }) => ({ name: display.title ?? "", text: shownText(display), color: display.color }));
}

function series(frames) {
  return frames.flatMap((frame) => frame.fields.filter((field) => field.type === FieldType.number).map((field) => {
    const at = frame.fields.find((each) => each.type === FieldType.time).values;
    const last = field.display(field.values[field.values.length - 1]);
    return { name: getFieldDisplayName(field, frame, frames), color: last.color, text: shownText(last), at, values: field.values };
  }));
}

function cell(field, index) {
  const display = field.display(field.values[index]);
  const mode = field.config.custom?.cellOptions?.type;
  const [link] = field.config.links ?? [];
  const url = link?.url.replace("${__value.raw}", encodeURIComponent(field.values[index]));
  return { text: shownText(display), color: mode === "color-text" ? display.color : undefined, url };
}

function table(frames) {
  const [frame] = frames;
  const fields = frame.fields;
  return {
    columns: fields.map((field) => getFieldDisplayName(field, frame, frames)),
    rows: Array.from({ length: frame.length }, (_, index) => fields.map((field) => cell(field, index))),
  };
}

function heat(panel, frames) {
  const [frame] = frames;
  const [time, ...buckets] = frame.fields;
  const format = getValueFormat(panel.options.yAxis.unit);
  const label = (bound) => Number.isFinite(bound) ? formattedValueToString(format(bound)) : "more";
  return { at: time.values, buckets: buckets.map(({ name, values }) => ({ label: label(Number(name)), values })) };
}

const isStacked = (panel) => panel.fieldConfig.defaults.custom?.stacking?.mode === "normal";

// Of series that are stacked, the sums at each moment.
function sums(frames) {
  const at = new Map();
  for (const { fields } of frames) {
    const [time, value] = [FieldType.time, FieldType.number].map((type) => fields.find((each) => each.type === type).values);
    time.forEach((moment, index) => at.set(moment, (at.get(moment) ?? 0) + value[index]));
  }
  return [...at.values()];
}

// Texts of an axis: Grafana formats its marks by the field's own processor.
function axis(panel, frames) {
  const fields = frames.flatMap((frame) => frame.fields.filter((each) => each.type === FieldType.number)), [field] = fields;
  const values = isStacked(panel) ? sums(frames) : fields.flatMap((each) => each.values);
  const known = values.filter(Number.isFinite), { min, max } = panel.fieldConfig.defaults;
  const top = Math.max(...known, max ?? -Infinity), bottom = Math.min(...known, min ?? Infinity);
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => bottom + part * (top - bottom));
  return Object.fromEntries(marks.map((mark) => [mark, shownText(field.display(mark))]));
}

const DRAWN = {
  stat: (panel, frames, config) => ({ numbers: numbers(panel, frames, config) }),
  timeseries: (panel, frames) => ({ series: series(frames), axis: axis(panel, frames) }),
  table: (panel, frames) => table(frames),
  heatmap: heat,
};

async function shownPanel(panel, answers) {
  const { id, type, title, description, gridPos } = panel;
  const base = { id, type, title, description, gridPos };
  if (type === "row") return { ...base, problems: [] };
  const byRef = Object.fromEntries(answers.filter((each) => each.panel === id).map((each) => [each.ref, each]));
  const single = panel.targets.length === 1;
  const raw = panel.targets.flatMap((target) => framesOf(target, byRef[target.refId], single));
  const problems = [...unitsNotKnown(panel)];
  if (!raw.length) return { ...base, empty: true, noValue: panel.fieldConfig.defaults.noValue, problems };
  const config = withDefaults(panel);
  const after = await transformed(raw, panel.transformations);
  problems.push(...transformationsThatDoNotFit(panel, raw, after), ...overridesWithoutField(panel, after));
  const frames = applyFieldOverrides({
    data: after, fieldConfig: config, replaceVariables: asIs, theme, timeZone: "utc", fieldConfigRegistry: settings,
  });
  const limits = config.defaults.custom?.thresholdsStyle?.mode ? config.defaults.thresholds.steps.slice(1).map((each) => each.value) : [];
  const shown = { ...base, ...DRAWN[type](panel, frames, config), limits, stacked: isStacked(panel) };
  return { ...shown, min: config.defaults.min, problems: [...problems, ...textsThatSayNothing(shown)] };
}

const [recordingFile, shownFile] = process.argv.slice(2);
const recording = JSON.parse(readFileSync(recordingFile, "utf8"));
const boards = {};
for (const [name, { board, variables, answers }] of Object.entries(recording.boards)) {
  const panels = [];
  for (const panel of board.panels) panels.push(await shownPanel(panel, answers));
  boards[name] = { title: board.title, description: board.description, variables, panels };
}
writeFileSync(shownFile, JSON.stringify({ from: recording.from, to: recording.to, boards }));
