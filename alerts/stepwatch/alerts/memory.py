"""Recording rules with memory: when a condition was last seen, and a job's last known values.

Each rule reads its own newest sample, one per series, while a one-hour range reads hundreds. A
rule without a result ends its series at once, so that a forgotten series stays forgotten.
Prometheus uses the newest sample for five minutes: the memory survives a shorter restart.

A value is the time at which the condition was seen. A group's rules are evaluated in order at one
time. So a condition seen now equals `time()`, and a remembered one is less:

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
    """Return a recorded series' name: its labels, the source metric and the operation.

    Source: https://prometheus.io/docs/practices/rules/
    """
    return f"{'_'.join(labels)}:{metric.name}:{operation}"


def last_seen(condition: str, seconds: int, name: str) -> Recording:
    """Return when a condition last held, in seconds since the epoch, for `seconds` after it.

    `name` comes from `recorded_name`.
    """
    return Recording(name, either(f"0 * ({condition}) + time()", f"{name} > time() - {seconds}"))


def holding(condition: str, name: str) -> Recording:
    """Return 1 per job for which a condition holds.

    A condition that is read several times, or by two rules, is then computed once per evaluation.
    """
    return Recording(name, f"count {BY_JOB} (\n{indent(condition, '  ')}\n)")


def _last_running() -> Recording:
    # 0 if a job ended, over all collectors: one may lag behind another that took over the job.
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
    # Rarely any job: if one side of `and` is empty, Prometheus skips the comparison.
    trains_unseen = and_on_job(f"{name} <= time() - {VANISHED_SECONDS}", f"{NODE_RANKS.name} > 0")
    remembered = either(recent, trains_unseen)
    # A job with a new class does not keep the previous one.
    return Recording(name, f"({now})\nor on ({JOB})\n(\n{indent(remembered, '  ')}\n)")


LAST_RUNNING = _last_running()
"""When a job last ran, for an hour after it left the metrics; 0 if it ended there."""
LEFT_WHILE_RUNNING = Recording(
    recorded_name((JOB,), JOB_RUNNING, "left_timestamp_seconds"),
    f"({LAST_RUNNING.name} > 0) < time()",
)
"""When jobs last ran that left the metrics without an end."""
LAST_ATTEMPTS = _last_attempts()
"""When each attempt was last in the metrics, for the period in which attempts are counted."""
LAST_CLASSES = _last_classes()
"""When a job was last in the metrics, by class: for an hour, or while agents see ranks."""

SHARED = (LAST_RUNNING, LEFT_WHILE_RUNNING, LAST_ATTEMPTS, LAST_CLASSES)
"""Recordings that several alerts read, in evaluation order, in their own group. A rule in another
group sees a value that is at most one evaluation old.
"""


def classes_of_left(operation: str) -> Recording:
    """Return the classes of jobs that are not in the metrics, as of the read time."""
    name = recorded_name((JOB, JOB_CLASS), JOB_INFO, operation)
    return Recording(name, f"{LAST_CLASSES.name}\nunless on ({JOB})\n{JOB_INFO.name}")
