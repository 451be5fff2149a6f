// @grafana/data, with the registries that Grafana fills when it starts.
import { require } from "./window.mjs";

const data = require("@grafana/data");

export const {
  FieldType, applyFieldOverrides, createTheme, fieldMatchers, formattedValueToString, getFieldDisplayName,
  getFieldDisplayValues, getValueFormat, getValueFormats, renderLegendFormat, toDataFrame, transformDataFrame,
} = data;

// Some transformers stand there under two names.
const transformers = new Map(Object.values(data.standardTransformers).map((each) => [each.id, each]));
data.standardTransformersRegistry.setInit(() => [...transformers.values()].map((each) =>
  ({ id: each.id, name: each.name, transformation: async () => each, editor: () => null })));

// Settings that an override may set, each with the processor that Grafana runs on its value.
const setting = (path, process, custom = false) => ({
  id: custom ? `custom.${path}` : path, path, name: path, isCustom: custom, process, override: () => null, editor: () => null,
  shouldApply: () => true,
});
const SETTINGS = [
  setting("unit", data.unitOverrideProcessor), setting("min", data.numberOverrideProcessor),
  setting("max", data.numberOverrideProcessor), setting("decimals", data.numberOverrideProcessor),
  setting("displayName", data.displayNameOverrideProcessor), setting("noValue", data.stringOverrideProcessor),
  setting("mappings", data.valueMappingsOverrideProcessor), setting("thresholds", data.thresholdsOverrideProcessor),
  setting("links", data.dataLinksOverrideProcessor), setting("color", data.identityOverrideProcessor),
  setting("cellOptions", data.identityOverrideProcessor, true), setting("width", data.numberOverrideProcessor, true),
];
export const settings = new data.FieldConfigOptionsRegistry(() => SETTINGS);
export const transformerIds = new Set(transformers.keys());
export const theme = createTheme({ colors: { mode: "dark" } });
