"""Check whether a query fits the exported series: every metric, and every label where it is used.

Labels are followed through the query: outside `sum by (job_name)` the dropped labels do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import promql_parser as promql

from stepwatch.signals.names import JOB, Metric, MetricKind
from stepwatch.signals.phrases import closest_hint

Labels = frozenset[str]

SCRAPE_LABELS: Labels = frozenset({"job", "instance"})
"""Labels that Prometheus adds to every series it scrapes."""

_LABEL_VALUES = re.compile(r"label_values\(\s*(?P<series>.+?)\s*,\s*(?P<label>\w+)\s*\)")
# Grafana replaces these where PromQL expects a duration.
_DURATIONS = re.compile(r"\$__(rate_interval|interval|range)\b")
# These select series, and leave their labels unchanged.
_SELECTING = frozenset({"topk", "bottomk"})
_LABELLESS_CALLS = frozenset({"absent", "scalar", "time", "vector"})


_OF_ALERTS = frozenset({"alertname", "alertstate", "severity", JOB})
"""Labels of the series that Prometheus itself writes for alerts on jobs."""


def exported(metrics: Iterable[Metric]) -> dict[str, Labels]:
    """Return the labels for every series name that a query may use."""
    series: dict[str, Labels] = {"ALERTS": _OF_ALERTS}
    for metric in metrics:
        for name in metric.series_names:
            bucket = metric.kind is MetricKind.HISTOGRAM and name.endswith("_bucket")
            extra = {"le"} if bucket else set()
            series[name] = frozenset(metric.labels) | SCRAPE_LABELS | extra
    return series


def recorded(
    name: str, expr: str, series: Mapping[str, Labels]
) -> tuple[dict[str, Labels], list[str]]:
    """Return the series plus a recording rule's, and the problems; the rule may read itself."""
    # The other series in the expression determine its labels.
    labels = read(expr, {**series, name: frozenset()}).labels
    all_series = {**series, name: labels}
    return all_series, read(expr, all_series).problems


@dataclass
class Reading:
    """Result of checking a query: the labels on its result, and the problems."""

    series: Mapping[str, Labels]
    problems: list[str] = field(default_factory=list)
    labels: Labels = frozenset()

    def require(self, labels: Iterable[str], available: Labels, where: str) -> None:
        """Add a problem for every one of `labels` that is not in `available`."""
        for label in sorted(set(labels) - available):
            has = ", ".join(sorted(available - SCRAPE_LABELS)) or "none"
            self.problems.append(f"{where} uses label {label!r}, but there only is: {has}")


def read(query: str, series: Mapping[str, Labels]) -> Reading:
    """Check a PromQL query, or Grafana's `label_values(...)`, against the exported series."""
    reading = Reading(series)
    values = _LABEL_VALUES.fullmatch(query.strip())
    text = values["series"] if values else _DURATIONS.sub("5m", query)
    try:
        expression = promql.parse(text)
    except ValueError as error:
        reading.problems.append(f"is not PromQL: {error}")
        return reading
    reading.labels = _labels(expression, reading)
    if values:
        reading.require([values["label"]], reading.labels, "label_values")
    return reading


def _labels(expression: promql.Expr, reading: Reading) -> Labels:
    """Return the labels on an expression's result."""
    match expression:
        case promql.VectorSelector():
            return _selector(expression, reading)
        case promql.MatrixSelector():
            return _selector(expression.vector_selector, reading)
        case promql.AggregateExpr():
            return _aggregate(expression, reading)
        case promql.BinaryExpr():
            return _binary(expression, reading)
        case promql.Call():
            return _call(expression, reading)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _labels(expression.expr, reading)
        case _:
            return frozenset()


def _selector(selector: promql.VectorSelector, reading: Reading) -> Labels:
    name = selector.name
    if name is None:
        reading.problems.append("selects series without a metric name; name the metric")
        return frozenset()
    if name not in reading.series:
        reading.problems.append(f"nothing exports {name}{nearest(name, reading.series)}")
        return frozenset()
    labels = reading.series[name]
    groups = [selector.matchers.matchers, *selector.matchers.or_matchers]
    reading.require((matcher.name for group in groups for matcher in group), labels, name)
    return labels


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint with the most similar known name, or an empty string."""
    hint = closest_hint(name, names, list_known=False)
    return f"; {hint}" if hint else ""


def _aggregate(expression: promql.AggregateExpr, reading: Reading) -> Labels:
    inner = _labels(expression.expr, reading)
    modifier = expression.modifier
    if str(expression.op) in _SELECTING:
        return inner
    if modifier is None:
        return frozenset()
    if modifier.type == promql.AggModifierType.Without:
        return inner - set(modifier.labels)
    # After a metric that nothing exports, every label would be a second problem.
    if inner:
        reading.require(modifier.labels, inner, f"by ({', '.join(modifier.labels)})")
    return frozenset(modifier.labels)


def _binary(expression: promql.BinaryExpr, reading: Reading) -> Labels:
    lhs, rhs = _labels(expression.lhs, reading), _labels(expression.rhs, reading)
    modifier = expression.modifier
    if modifier is None:
        return lhs or rhs
    group = frozenset(modifier.group_labels or ())
    on = _on(modifier.matching)
    for side in (lhs, rhs):
        if side and on is not None:
            reading.require(on, side, f"on ({', '.join(sorted(on))})")
    match modifier.card:
        case promql.VectorMatchCardinality.ManyToOne:
            return _joined(lhs, rhs, group, reading)
        case promql.VectorMatchCardinality.OneToMany:
            return _joined(rhs, lhs, group, reading)
        case promql.VectorMatchCardinality.OneToOne if on is not None:
            return on
        case _:
            return lhs | rhs if str(expression.op) == "or" else lhs or rhs


def _on(matching: promql.LabelModifier | None) -> Labels | None:
    """Return the labels in `on (...)`; None without it."""
    if matching is None or matching.type != promql.LabelModifierType.Include:
        return None
    return frozenset(matching.labels)


def _joined(many_side: Labels, one_side: Labels, group: Labels, reading: Reading) -> Labels:
    if one_side:
        reading.require(group, one_side, f"group ({', '.join(sorted(group))})")
    return many_side | group


def _call(expression: promql.Call, reading: Reading) -> Labels:
    argument_labels = [_labels(argument, reading) for argument in expression.args]
    if expression.func.name in _LABELLESS_CALLS:
        return frozenset()
    if expression.func.name == "histogram_quantile":
        reading.require(["le"], argument_labels[-1], "histogram_quantile")
        return argument_labels[-1] - {"le"}
    return frozenset().union(*argument_labels)
