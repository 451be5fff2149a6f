"""PromQL over many jobs or nodes, for the dashboards that show more than one job.

As in `queries`, scrape labels are aggregated away with `max`, so that a second collector that
exports the same job counts it once, and no query fills a gap.
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
"""Rows of a table, the worst first: a fleet has hundreds of jobs and nodes."""

_WINDOW = "[$__rate_interval]"
SLOW_WINDOW = "[10m]"
"""For gauges that the collector renews once a minute."""
_CHOSEN = f'{JOB}=~"${JOB_VARIABLE}"'
_JOBS = f"{{{_CHOSEN}}}"
_NODE = f'{{{NODE}="${NODE_VARIABLE}"}}'


def _aggregated(expr: str, *labels: str, how: str = "max") -> str:
    return f"{how} by ({', '.join(labels)}) ({expr})" if labels else f"{how}({expr})"


def of_jobs(metric: Metric, *labels: str, how: str = "max", matching: str = "") -> str:
    """Newest value for each chosen job and each value of further labels.

    `matching` narrows the series by one more label matcher.
    """
    chosen = f"{{{_CHOSEN},{matching}}}" if matching else _JOBS
    return _aggregated(f"{metric.name}{chosen}", JOB, *labels, how=how)


def rate_of_jobs(metric: Metric, *labels: str) -> str:
    """Rate per second of a counter, for each chosen job and each value of further labels."""
    return _aggregated(f"rate({metric.name}{_JOBS}{_WINDOW})", JOB, *labels)


def growth_of_jobs(metric: Metric, *labels: str) -> str:
    """Rise per second of a gauge that only an amendment lets fall, for each chosen job.

    The fall of an amendment is left out: it is no negative spending.
    """
    rise = _aggregated(f"deriv({metric.name}{_JOBS}{SLOW_WINDOW})", JOB, *labels)
    return f"clamp_min({rise}, 0)"


def while_running(expr: str) -> str:
    """Of jobs that are expected to run, alone: what is over makes no progress and sends nothing."""
    return f"{expr} and on ({JOB}) {of_jobs(JOB_RUNNING)} == 1"


def worst(expr: str, how: str = "topk") -> str:
    """The worst rows of a table: the largest, or with `bottomk` the smallest."""
    return f"{how}({MOST_ROWS}, {expr})"


def total(expr: str, *labels: str) -> str:
    """Sum over jobs or nodes that are counted once already."""
    return _aggregated(expr, *labels, how="sum")


def of_node(metric: Metric, *labels: str, how: str = "max") -> str:
    """Newest value of the chosen node, for each value of further labels."""
    return _aggregated(f"{metric.name}{_NODE}", NODE, *labels, how=how)


def rise_of_node(metric: Metric, *labels: str) -> str:
    """How much a counter of the chosen node rose of late, for each value of further labels."""
    return _aggregated(f"increase({metric.name}{_NODE}{_WINDOW})", NODE, *labels)


def of_all(metric: Metric, *labels: str, how: str = "max") -> str:
    """Newest value over all that export a metric, for each value of labels."""
    return _aggregated(metric.name, *labels, how=how)


def of_each_device(metric: Metric, how: str) -> str:
    """One value for each node: of its devices the highest (`max`), all (`sum`) or the mean."""
    return _aggregated(metric.name, NODE, how=how)


def rate_by_node(metric: Metric, *labels: str, matching: str = "") -> str:
    """Rate per second of a counter of nodes, summed over what a node has several of."""
    chosen = f"{{{matching}}}" if matching else ""
    return _aggregated(f"rate({metric.name}{chosen}{_WINDOW})", NODE, *labels, how="sum")


def on_nodes_of_job(expr: str) -> str:
    """Of nodes with ranks of the one chosen job, alone; `expr` has one series a node."""
    ranks = f'{NODE_RANKS.name}{{{JOB}="${JOB_VARIABLE}"}}'
    return f"{expr} and on ({NODE}) {_aggregated(ranks, NODE)} > 0"


def rate_of_all(metric: Metric, *labels: str) -> str:
    """Rate per second of a counter, summed over all that count."""
    return _aggregated(f"rate({metric.name}{_WINDOW})", *labels, how="sum")


def rise_of_all(metric: Metric, *labels: str) -> str:
    """How much a counter rose of late, summed over all that count."""
    return _aggregated(f"increase({metric.name}{_WINDOW})", *labels, how="sum")


ATTEMPTS = _aggregated(
    _aggregated(f"last_over_time({JOB_INFO.name}{_JOBS}[$__range])", JOB, ATTEMPT), JOB, how="count"
)
"""Attempts of each chosen job within the time range of the dashboard."""
