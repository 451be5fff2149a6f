"""PromQL over many jobs or nodes, for dashboards with more than one job.

As in `queries`, `max` aggregates the scrape labels away, so that a second collector with the same
job counts once. No query fills a gap.
"""

from __future__ import annotations

from stepwatch.signals.names import (
    ATTEMPT,
    JOB,
    JOB_INFO,
    JOB_RUNNING,
    NODE,
    NODE_RANKS,
    Metric,
)

from .frame import NODE_VARIABLE
from .queries import JOB_VARIABLE

MOST_ROWS = 20
"""Table rows, the worst first: a fleet has hundreds of jobs and nodes."""

_WINDOW = "[$__rate_interval]"
SLOW_WINDOW = "[10m]"
"""For gauges that the collector updates once a minute."""
_CHOSEN = f'{JOB}=~"${JOB_VARIABLE}"'
_JOBS = f"{{{_CHOSEN}}}"
_NODE = f'{{{NODE}="${NODE_VARIABLE}"}}'


def _aggregated(expr: str, *labels: str, how: str = "max") -> str:
    return f"{how} by ({', '.join(labels)}) ({expr})" if labels else f"{how}({expr})"


def of_jobs(metric: Metric, *labels: str, how: str = "max", matching: str = "") -> str:
    """Return the newest value per selected job and further labels.

    `matching` filters the series by one more label matcher.
    """
    chosen = f"{{{_CHOSEN},{matching}}}" if matching else _JOBS
    return _aggregated(f"{metric.name}{chosen}", JOB, *labels, how=how)


def rate_of_jobs(metric: Metric, *labels: str) -> str:
    """Return a counter's rate per second, by selected job and further labels."""
    return _aggregated(f"rate({metric.name}{_JOBS}{_WINDOW})", JOB, *labels)


def growth_of_jobs(metric: Metric, *labels: str) -> str:
    """Return a gauge's rise per second by selected job; only an amendment lowers the gauge.

    An amendment's fall is left out: it is not negative spending.
    """
    rise = _aggregated(f"deriv({metric.name}{_JOBS}{SLOW_WINDOW})", JOB, *labels)
    return f"clamp_min({rise}, 0)"


def while_running(expr: str) -> str:
    """Restrict to jobs that should run: an ended job makes no progress and sends nothing."""
    return f"{expr} and on ({JOB}) {of_jobs(JOB_RUNNING)} == 1"


def worst(expr: str, how: str = "topk") -> str:
    """Return a table's worst rows: the largest, or with `bottomk` the smallest."""
    return f"{how}({MOST_ROWS}, {expr})"


def total(expr: str, *labels: str) -> str:
    """Sum over jobs or nodes that already count once."""
    return _aggregated(expr, *labels, how="sum")


def of_node(metric: Metric, *labels: str, how: str = "max") -> str:
    """Return the selected node's newest value by further labels."""
    return _aggregated(f"{metric.name}{_NODE}", NODE, *labels, how=how)


def rise_of_node(metric: Metric, *labels: str) -> str:
    """Return a counter's recent rise on the selected node by further labels."""
    return _aggregated(f"increase({metric.name}{_NODE}{_WINDOW})", NODE, *labels)


def of_all(metric: Metric, *labels: str, how: str = "max") -> str:
    """Return the newest value over all exporters by labels."""
    return _aggregated(metric.name, *labels, how=how)


def of_each_device(metric: Metric, how: str) -> str:
    """Return one value per node over its devices: maximum (`max`), sum (`sum`) or mean."""
    return _aggregated(metric.name, NODE, how=how)


def rate_by_node(metric: Metric, *labels: str, matching: str = "") -> str:
    """Return a counter's rate per second by node, summed over its interfaces or devices."""
    chosen = f"{{{matching}}}" if matching else ""
    return _aggregated(f"rate({metric.name}{chosen}{_WINDOW})", NODE, *labels, how="sum")


def on_nodes_of_job(expr: str) -> str:
    """Restrict to nodes with the selected job's ranks; `expr` has one series per node."""
    ranks = f'{NODE_RANKS.name}{{{JOB}="${JOB_VARIABLE}"}}'
    return f"{expr} and on ({NODE}) {_aggregated(ranks, NODE)} > 0"


def rate_of_all(metric: Metric, *labels: str) -> str:
    """Return a counter's rate per second, summed over all exporters."""
    return _aggregated(f"rate({metric.name}{_WINDOW})", *labels, how="sum")


def rise_of_all(metric: Metric, *labels: str, matching: str = "") -> str:
    """Return a counter's recent rise, summed over all exporters.

    `matching` filters the series by a label matcher.
    """
    chosen = f"{{{matching}}}" if matching else ""
    return _aggregated(f"increase({metric.name}{chosen}{_WINDOW})", *labels, how="sum")


ATTEMPTS = _aggregated(
    _aggregated(f"last_over_time({JOB_INFO.name}{_JOBS}[$__range])", JOB, ATTEMPT), JOB, how="count"
)
"""Attempts per selected job within the dashboard's time range."""
