"""Pieces of PromQL that several alerts need.

Each gives one series per job and no other label, so that an alert keeps its identity while ranks,
phases and collectors come and go.
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
"""What the collector exports of a job that did not say its class."""
_LOOK_SECONDS = 10
RUNNING = f"{JOB_RUNNING.name} == 1"
"""Jobs that some collector reports as running, a series for each such collector: to be a side of
`and`, `or` and `unless`."""


def worst(metric: Metric) -> str:
    """Highest value of a job, over collectors and slots."""
    return f"max {BY_JOB} ({metric.name})"


def above(metric: Metric, value: float) -> str:
    """Highest value of each job of which it is above that one; the others are not aggregated."""
    return f"max {BY_JOB} ({metric.name} > {value:g})"


def incident(*kinds: FindingKind) -> str:
    """Jobs with an open incident of one of the kinds."""
    return f"max {BY_JOB} ({open_incidents(*kinds)} > 0)"


def open_incidents(*kinds: FindingKind) -> str:
    """How many incidents of the kinds are open, a series for each kind of a job of which that is
    known."""
    match = "=" if len(kinds) == 1 else "=~"
    values = "|".join(kind.value for kind in kinds)
    return f'{INCIDENT_OPEN.name}{{{KIND}{match}"{values}"}}'


def either(*conditions: str) -> str:
    """Jobs for which any of the conditions holds."""
    return "\nor\n".join(_block(condition) for condition in conditions)


def and_on_job(left_condition: str, right_condition: str) -> str:
    """Jobs for which both conditions hold."""
    return f"{_block(left_condition)}\nand on ({JOB})\n{_block(right_condition)}"


def while_running(condition: str) -> str:
    """Jobs for which the condition holds and which are expected to make progress."""
    return and_on_job(condition, RUNNING)


def subquery(condition: str, seconds: int) -> str:
    """What a condition was at several moments of so many seconds, ten seconds apart, whatever the
    scrape interval."""
    return f"{condition}[{seconds}s:{_LOOK_SECONDS}s]"


def lasting(condition: str, seconds: int) -> str:
    """Where the condition has held for so long without a break, as `for` has it of a whole alert.

    Of thirty seconds it is looked at three moments or four, by where they fall.
    """
    return f"count_over_time({subquery(_block(condition), seconds)}) >= {seconds // _LOOK_SECONDS}"


def while_evaluated(condition: str, seconds: int) -> str:
    """A condition on what is absent, once Prometheus has evaluated rules for so long.

    Before it has scraped anything all is absent, and has been at each look back; its own alert
    that always fires shows since when it looks.
    """
    always = subquery(f'ALERTS{{alertname="{ALERT_WATCHDOG}"}}', seconds)
    least = seconds // _LOOK_SECONDS
    return f"{_block(condition)}\nand on ()\n(max(count_over_time({always})) >= {least})"


def without_page(condition: str, paged: Iterable[str], series: Iterable[str]) -> str:
    """Jobs for which the condition holds and whose class, of those series, is known and is none of
    `paged`."""
    return and_on_job(condition, _unpaged(paged, series))


def with_page(condition: str, paged: Iterable[str], series: Iterable[str]) -> str:
    """All others for which it holds: what is not known of a job keeps back no page."""
    return f"{_block(condition)}\nunless on ({JOB})\n{_block(_unpaged(paged, series))}"


def _unpaged(paged: Iterable[str], series: Iterable[str]) -> str:
    # Empty at the end: a series without the label says nothing of the class either.
    classes = "|".join(map(re.escape, (*paged, UNKNOWN_CLASS, "")))

    def jobs_with(sign: str) -> str:
        class_series = " or ".join(f'{metric}{{{JOB_CLASS}{sign}"{classes}"}}' for metric in series)
        return f"max {BY_JOB} ({class_series}) > 0"

    # A job of two classes is between two attempts: where one of them pages, it does.
    return f"{jobs_with('!~')}\nunless on ({JOB})\n{jobs_with('=~')}"


def _block(condition: str) -> str:
    if "\n" not in condition:
        return f"({condition})"
    return f"(\n{indent(condition, '  ')}\n)"
