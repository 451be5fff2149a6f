"""Panels with stepwatch's conventions.

An unknown value shows as "no data" in every panel, lines break at gaps, and only a measured value
within its threshold is green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepwatch.signals.names import JOB, NODE

from .sdk import (
    builders,
    common,
    common_builders,
    dashboard,
    heatmap,
    heatmap_models,
    prometheus,
    prometheus_models,
    stat,
    table,
    timeseries,
)

SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
NO_DATA = "no data"
NONE_KNOWN = "none known"
"""Text if no series means no finding: good only while telemetry arrives."""
NEUTRAL, GOOD, WARNING, BAD = "text", "green", "orange", "red"

Panel = stat.Panel | timeseries.Panel | table.Panel | heatmap.Panel
_REFS = "ABCDEFGH"


@dataclass(frozen=True)
class Metadata:
    """A panel's title, one-sentence description, unit (Grafana's unit id) and width.

    `width` is in grid columns, out of 24. `empty` is the text without data, so that the panel does
    not look broken.
    """

    title: str
    description: str
    unit: str = "short"
    width: int = 8
    empty: str = NO_DATA


@dataclass(frozen=True)
class Line:
    """One query and its series' legend; `exemplars` shows the metric's exemplars."""

    expr: str
    legend: str = ""
    exemplars: bool = False


Steps = Sequence[tuple[float | None, str]]
"""Colours from a value upwards; the first value is None, which means the lowest."""


def _steps(steps: Steps) -> builders.ThresholdsConfig:
    return (
        builders.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(value=value, color=color) for value, color in steps])
    )


def unknown() -> dashboard.ValueMapping:
    """Show a null or NaN as "no data" in a neutral colour."""
    result = dashboard.ValueMappingResult(text=NO_DATA, color=NEUTRAL, index=0)
    options = dashboard.DashboardSpecialValueMapOptions(
        match=dashboard.SpecialValueMatch.NULL_AND_NAN, result=result
    )
    return dashboard.SpecialValueMap(options=options)


def number(metadata: Metadata, line: Line, steps: Steps = ((None, NEUTRAL),)) -> stat.Panel:
    """Return one big number per series from the newest value."""
    query = _query(line, _REFS[0]).instant()
    last = common_builders.ReduceDataOptions().calcs(["last"]).values(False)
    return (
        stat.Panel()
        .title(metadata.title)
        .description(metadata.description)
        .datasource(SOURCE)
        .unit(metadata.unit)
        .span(metadata.width)
        .height(4)
        .no_value(metadata.empty)
        .mappings([unknown()])
        .thresholds(_steps(steps))
        .reduce_options(last)
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .text_mode(common.BigValueTextMode.VALUE_AND_NAME if line.legend else _VALUE)
        .with_target(query)
    )


_VALUE = common.BigValueTextMode.VALUE


def lines(
    metadata: Metadata,
    *queries: Line,
    floor: float | None = 0,
    threshold: float | None = None,
    stacked: bool = False,
) -> timeseries.Panel:
    """Return series over time; `threshold` draws a dashed line where the alert fires.

    `floor` is the axis minimum, None for an automatic one.
    """
    panel = (
        timeseries.Panel()
        .title(metadata.title)
        .description(metadata.description)
        .datasource(SOURCE)
        .unit(metadata.unit)
        .span(metadata.width)
        .height(8)
        .no_value(metadata.empty)
        .span_nulls(False)
        .legend(_legend())
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if floor is not None:
        panel = panel.min(floor)
    if threshold is not None:
        dashed = common_builders.GraphThresholdsStyleConfig().mode(_DASHED)
        panel = panel.thresholds(_steps(((None, NEUTRAL), (threshold, BAD)))).thresholds_style(
            dashed
        )
    if stacked:
        stacking = common_builders.StackingConfig().mode(common.StackingMode.NORMAL)
        panel = panel.stacking(stacking).fill_opacity(60)
    for ref, line in zip(_REFS, queries, strict=False):
        panel = panel.with_target(_query(line, ref).range())
    return panel


_DASHED = common.GraphThresholdsStyleMode.DASHED


def _legend() -> common_builders.VizLegendOptions:
    return (
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs(["last", "max"])
        .show_legend(True)
    )


def rows(
    metadata: Metadata, *queries: Line, columns: Mapping[str, str], height: int = 6
) -> table.Panel:
    """Return a table with the newest values; queries join on their common labels.

    `columns` maps the columns, in order, to their headings. A single query's value column is
    `Value`, several queries' are `Value #A`, `Value #B` and so on. Time is left out, and so are the
    job, the node and a single value unless `columns` has them.
    """
    panel = (
        table.Panel()
        .title(metadata.title)
        .description(metadata.description)
        .datasource(SOURCE)
        .unit(metadata.unit)
        .span(metadata.width)
        .height(height)
        .no_value(metadata.empty)
        .mappings([unknown()])
    )
    for ref, line in zip(_REFS, queries, strict=False):
        query = _query(line, ref).instant().format(prometheus_models.PromQueryFormat.TABLE)
        panel = panel.with_target(query)
    if len(queries) > 1:
        panel = panel.with_transformation(
            dashboard.DataTransformerConfig(id_val="merge", options={})
        )
    return panel.with_transformation(_organise(columns))


def _organise(columns: Mapping[str, str]) -> dashboard.DataTransformerConfig:
    return dashboard.DataTransformerConfig(
        id_val="organize",
        options={
            "excludeByName": {name: True for name in _LEFT_OUT if name not in columns},
            "indexByName": {name: index for index, name in enumerate(columns)},
            "renameByName": dict(columns),
        },
    )


_LEFT_OUT = ("Time", JOB, NODE, "Value")


def linked(panel: table.Panel, column: str, title: str, url: str) -> table.Panel:
    """Link a column's values, named by its heading, to an address.

    In `url`, `${__value.raw}` stands for the value; Grafana encodes it.
    """
    address = {"title": title, "url": url, "targetBlank": False}
    return panel.override_by_name(column, [dashboard.DynamicConfigValue("links", [address])])


def coloured_numbers(panel: stat.Panel, colors: Mapping[str, str]) -> stat.Panel:
    """Colour series' numbers from 1 upwards, by legend; 0 stays neutral."""
    for name, color in colors.items():
        steps = _steps(((None, NEUTRAL), (1, color))).build()
        panel = panel.override_by_name(name, [dashboard.DynamicConfigValue("thresholds", steps)])
    return panel


def coloured(panel: table.Panel, column: str, colors: Mapping[str, str]) -> table.Panel:
    """Show a column's texts, named by its heading, in their colours."""
    options = {
        text: dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (text, color) in enumerate(colors.items())
    }
    return panel.override_by_name(
        column,
        [
            dashboard.DynamicConfigValue("mappings", [dashboard.ValueMap(options=options)]),
            dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ],
    )


def heat(metadata: Metadata, line: Line) -> heatmap.Panel:
    """Return the distribution over time from a histogram's own buckets."""
    axis = heatmap.YAxisConfig().unit(metadata.unit).axis_placement(common.AxisPlacement.LEFT)
    color = (
        heatmap.HeatmapColorOptions()
        .mode(heatmap_models.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .steps(64)
        .exponent(0.5)
        .fill("dark-orange")
    )
    query = _query(line, _REFS[0]).range().format(prometheus_models.PromQueryFormat.HEATMAP)
    return (
        heatmap.Panel()
        .title(metadata.title)
        .description(metadata.description)
        .datasource(SOURCE)
        .span(metadata.width)
        .height(8)
        .no_value(metadata.empty)
        .calculate(False)
        .y_axis(axis)
        .color(color)
        .cell_gap(1)
        # Empty buckets are left out, not drawn as a low count.
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.AUTO))
        .with_target(query)
    )


def _query(line: Line, ref: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(line.expr).datasource(SOURCE).ref_id(ref)
    if line.exemplars:
        query = query.exemplar(True)
    return query.legend_format(line.legend) if line.legend else query


def link(title: str, url: str) -> builders.DashboardLink:
    """Return a link to a page outside Grafana, opened in its own tab."""
    return (
        builders.DashboardLink(title)
        .type(dashboard.DashboardLinkType.LINK)
        .url(url)
        .target_blank(True)
    )
