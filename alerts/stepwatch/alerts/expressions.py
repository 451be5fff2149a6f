"""PromQL parts that several alerts share.

Each returns one series per job without other labels, so that an alert keeps its identity while
ranks, phases and collectors change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import indent

from stepwatch.signals.names import (
    ALERT_WATCHDOG,
    INCIDENT_OPEN,
    JOB,
    JOB_CLASS,
    JOB_RUNNING,
    KIND,
    FindingKind,
    Metric,
)

BY_JOB = f"by ({JOB})"
UNKNOWN_CLASS = "unknown"
"""The class that the collector exports for a job without a class."""
_LOOK_SECONDS = 10
RUNNING = f"{JOB_RUNNING.name} == 1"
"""Jobs that a collector reports as running, with one series per collector; for use as an operand to
`and`, `or` and `unless`.
"""


def worst(metric: Metric) -> str:
    """Return each job's highest value over collectors and slots."""
    return f"max {BY_JOB} ({metric.name})"


def above(metric: Metric, value: float) -> str:
    """Return each job's highest value above `value`; lower values are not aggregated."""
    return f"max {BY_JOB} ({metric.name} > {value:g})"


def incident(*kinds: FindingKind) -> str:
    """Return jobs with an open incident of one of the kinds."""
    return f"max {BY_JOB} ({open_incidents(*kinds)} > 0)"


def open_incidents(*kinds: FindingKind) -> str:
    """Return the number of open incidents, one series per job and kind, if it is known."""
    match = "=" if len(kinds) == 1 else "=~"
    values = "|".join(kind.value for kind in kinds)
    return f'{INCIDENT_OPEN.name}{{{KIND}{match}"{values}"}}'


def either(*conditions: str) -> str:
    """Return jobs for which any condition holds."""
    return "\nor\n".join(_block(condition) for condition in conditions)


def and_on_job(left_condition: str, right_condition: str) -> str:
    """Return jobs for which both conditions hold."""
    return f"{_block(left_condition)}\nand on ({JOB})\n{_block(right_condition)}"


def while_running(condition: str) -> str:
    """Return jobs for which the condition holds while they should make progress."""
    return and_on_job(condition, RUNNING)


def subquery(condition: str, seconds: int) -> str:
    """Return the condition as a subquery with a ten-second resolution.

    The range is `seconds`, and the scrape interval does not matter.
    """
    return f"{condition}[{seconds}s:{_LOOK_SECONDS}s]"


def lasting(condition: str, seconds: int) -> str:
    """Return where the condition has held without a break, like `for` on a whole alert.

    A range of thirty seconds has three or four samples, depending on alignment.
    """
    return f"count_over_time({subquery(_block(condition), seconds)}) >= {seconds // _LOOK_SECONDS}"


def while_evaluated(condition: str, seconds: int) -> str:
    """Return a condition on absent data, after Prometheus has evaluated rules for `seconds`.

    Before the first scrape everything is absent, and it stays so in older samples. The alert that
    always fires shows how long Prometheus has evaluated.
    """
    always = subquery(f'ALERTS{{alertname="{ALERT_WATCHDOG}"}}', seconds)
    least = seconds // _LOOK_SECONDS
    return f"{_block(condition)}\nand on ()\n(max(count_over_time({always})) >= {least})"


def without_page(condition: str, paged: Iterable[str], series: Iterable[str]) -> str:
    """Return jobs for which the condition holds, with a known class outside `paged`."""
    return and_on_job(condition, _unpaged(paged, series))


def with_page(condition: str, paged: Iterable[str], series: Iterable[str]) -> str:
    """Return all other jobs for which the condition holds: an unknown class still pages."""
    return f"{_block(condition)}\nunless on ({JOB})\n{_block(_unpaged(paged, series))}"


def _unpaged(paged: Iterable[str], series: Iterable[str]) -> str:
    # The empty string: a series without the label does not tell the class either.
    classes = "|".join(map(re.escape, (*paged, UNKNOWN_CLASS, "")))

    def jobs_with(sign: str) -> str:
        class_series = " or ".join(f'{metric}{{{JOB_CLASS}{sign}"{classes}"}}' for metric in series)
        return f"max {BY_JOB} ({class_series}) > 0"

    # A job with two classes is between two attempts: it pages if one of them pages.
    return f"{jobs_with('!~')}\nunless on ({JOB})\n{jobs_with('=~')}"


def _block(condition: str) -> str:
    if "\n" not in condition:
        return f"({condition})"
    return f"(\n{indent(condition, '  ')}\n)"
