"""Pieces of PromQL that several alerts need.

Each gives one series per job and no other label, so that an alert keeps its identity while ranks,
phases and collectors come and go.
"""

from __future__ import annotations

from textwrap import indent

from stepwatch.signals.names import INCIDENT_OPEN, JOB, JOB_RUNNING, KIND, FindingKind, Metric

BY_JOB = f"by ({JOB})"
RUNNING = f"max {BY_JOB} ({JOB_RUNNING.name}) == 1"


def worst(metric: Metric) -> str:
    """Highest value of a job, over collectors and slots."""
    return f"max {BY_JOB} ({metric.name})"


def incident(*kinds: FindingKind) -> str:
    """Jobs with an open incident of one of the kinds."""
    match = "=" if len(kinds) == 1 else "=~"
    values = "|".join(kind.value for kind in kinds)
    return f'max {BY_JOB} ({INCIDENT_OPEN.name}{{{KIND}{match}"{values}"}}) > 0'


def either(*conditions: str) -> str:
    """Jobs for which any of the conditions holds."""
    return "\nor\n".join(_block(condition) for condition in conditions)


def both(one: str, other: str) -> str:
    """Jobs for which both conditions hold."""
    return f"{_block(one)}\nand on ({JOB})\n{_block(other)}"


def while_running(condition: str) -> str:
    """Jobs for which the condition holds and which are expected to make progress."""
    return both(condition, RUNNING)


def _block(condition: str) -> str:
    if "\n" not in condition:
        return f"({condition})"
    return f"(\n{indent(condition, '  ')}\n)"
