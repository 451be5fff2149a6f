"""Recording rules that remember: when something was last seen, and what was last said of a job.

Each reads its own newest sample, one for each series, where a range over an hour reads hundreds. A
rule that gives no result ends its series at once, so that what is forgotten stays so. Prometheus
takes a sample for the newest for five minutes: a memory outlives a restart of it that is shorter.

A value is the time at which something was seen. Rules of a group are evaluated in turn at one
moment, so that what was seen now is `== time()`, and what is only remembered is less:

    job      in the metrics   recorded at 100   recorded at 105
    llama    1, then gone     100               100, so < time()
    mistral  1                100               105
    qwen     0, it ended      0                 0
"""

from __future__ import annotations

from textwrap import indent

from stepwatch.signals.names import (
    ATTEMPT,
    JOB,
    JOB_CLASS,
    JOB_INFO,
    JOB_RUNNING,
    NODE_RANKS,
    Metric,
)

from .expressions import BY_JOB, and_on_job, either
from .spec import Recording
from .thresholds import LOOPING_SECONDS, VANISHED_SECONDS


def recorded_name(labels: tuple[str, ...], metric: Metric, operation: str) -> str:
    """Name of a recorded series: its labels, the metric it is made of, and what was done with it.

    Source: https://prometheus.io/docs/practices/rules/
    """
    return f"{'_'.join(labels)}:{metric.name}:{operation}"


def last_seen(condition: str, seconds: int, name: str) -> Recording:
    """When a condition last held, in seconds since the epoch, until it is so many seconds ago.

    `name` is one of `recorded_name`.
    """
    return Recording(name, either(f"0 * ({condition}) + time()", f"{name} > time() - {seconds}"))


def holding(condition: str, name: str) -> Recording:
    """1 for each job for which a condition holds: what is read at several moments, or by two rules,
    is computed once a moment."""
    return Recording(name, f"count {BY_JOB} (\n{indent(condition, '  ')}\n)")


def _last_running() -> Recording:
    # 0 of a job that ended, over all collectors: one may be behind another that took the job up.
    name = recorded_name((JOB,), JOB_RUNNING, "last_timestamp_seconds")
    now = f"max {BY_JOB} ({JOB_RUNNING.name}) * time()"
    return Recording(name, either(now, f"{name} > time() - {VANISHED_SECONDS}"))


def _last_attempts() -> Recording:
    name = recorded_name((JOB, ATTEMPT), JOB_INFO, "last_timestamp_seconds")
    now = f"max by ({JOB}, {ATTEMPT}) ({JOB_INFO.name}) * time()"
    return Recording(name, either(now, f"{name} > time() - {LOOPING_SECONDS}"))


def _last_classes() -> Recording:
    name = recorded_name((JOB, JOB_CLASS), JOB_INFO, "last_timestamp_seconds")
    now = f"max by ({JOB}, {JOB_CLASS}) ({JOB_INFO.name}) * time()"
    recent = f"{name} > time() - {VANISHED_SECONDS}"
    # Hardly ever a job: where one side of `and` is empty, Prometheus does not compare them.
    trains_unseen = and_on_job(f"{name} <= time() - {VANISHED_SECONDS}", f"{NODE_RANKS.name} > 0")
    remembered = either(recent, trains_unseen)
    # A job that has another class by now does not keep the one before.
    return Recording(name, f"({now})\nor on ({JOB})\n(\n{indent(remembered, '  ')}\n)")


LAST_RUNNING = _last_running()
"""When a job last ran, for an hour after it left the metrics; 0 of one that ended there."""
LEFT_WHILE_RUNNING = Recording(
    recorded_name((JOB,), JOB_RUNNING, "left_timestamp_seconds"),
    f"({LAST_RUNNING.name} > 0) < time()",
)
"""When jobs last ran that left the metrics without an end."""
LAST_ATTEMPTS = _last_attempts()
"""When each attempt was last in the metrics, for the time in which they are counted."""
LAST_CLASSES = _last_classes()
"""When a job was last in the metrics, by its class: for an hour, or while agents see ranks."""

SHARED = (LAST_RUNNING, LEFT_WHILE_RUNNING, LAST_ATTEMPTS, LAST_CLASSES)
"""What several alerts read, in the order in which it is recorded, in a group of its own: a rule of
another group reads it as it was at most one evaluation ago."""


def classes_of_left(operation: str) -> Recording:
    """The classes of jobs that are not in the metrics, as of the moment at which they are read."""
    name = recorded_name((JOB, JOB_CLASS), JOB_INFO, operation)
    return Recording(name, f"{LAST_CLASSES.name}\nunless on ({JOB})\n{JOB_INFO.name}")
