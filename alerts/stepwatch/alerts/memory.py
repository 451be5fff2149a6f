"""Recording rules that remember: when something was last seen, and what was last said of a job.

Each reads its own newest sample, one for each series, where a range over an hour reads hundreds. A
rule that gives no result ends its series at once, so that what is forgotten stays so. Prometheus
takes a sample for the newest for five minutes: a memory outlives a restart of it that is shorter.
"""

from __future__ import annotations

from textwrap import indent

from stepwatch.signals.names import JOB, JOB_CLASS, JOB_INFO, Metric

from .expressions import BY_JOB, either, worst
from .spec import Recording


def last_seen(
    condition: str,
    seconds: int,
    name: str,
    *,
    ended: str = "",
) -> Recording:
    """When a condition last held, in seconds since the epoch, until it is so many seconds ago.

    Of a job for which `ended` gives anything, only what holds now is kept. `name` is one of
    `recorded_name`.
    """
    kept = f"{name} > time() - {seconds}"
    if ended:
        kept += f"\nunless on ({JOB})\n{ended}"
    return Recording(name, either(f"0 * ({condition}) + time()", kept))


def holding(condition: str, name: str) -> Recording:
    """1 for each job for which a condition holds: what is read at several moments, or by two rules,
    is computed once a moment."""
    return Recording(name, f"count {BY_JOB} (\n{indent(condition, '  ')}\n)")


def classes(operation: str, *, of: str) -> Recording:
    """The class of each job, and of those that left the metrics, while `of` gives anything for
    them, the class that they had."""
    name = recorded_name((JOB, JOB_CLASS), JOB_INFO, operation)
    kept = f"{name}\nand on ({JOB})\n{of}\nunless on ({JOB})\n{worst(JOB_INFO)}"
    return Recording(name, either(f"max by ({JOB}, {JOB_CLASS}) ({JOB_INFO.name})", kept))


def recorded_name(labels: tuple[str, ...], metric: Metric, operation: str) -> str:
    """Name of a recorded series: its labels, the metric it is made of, and what was done with it.

    Source: https://prometheus.io/docs/practices/rules/
    """
    return f"{'_'.join(labels)}:{metric.name}:{operation}"
