"""Fields with which a list of jobs is read at a glance; each is cheap at every evaluation."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.slo.waste import CAUSES, DAY_SECONDS, MICROSECONDS, Spent
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_facts import step_lengths
from stepwatch.collector.web.schema.job import (
    Amount,
    FleetFields,
    Goodput,
    NodesOfJob,
    VerifiedCheckpoint,
)
from stepwatch.signals.arrays import Integers, Vector

PACE_STEPS, PACE_POINTS = 256, 32
"""Newest steps in the sparkline of pace, and its points: it is about 100 pixels wide."""
NAMED_NODES = 4
"""Nodes that are named; all are counted."""
_PRODUCTIVE = CAUSES.index(Spent.PRODUCTIVE)


def fleet_fields(job: LiveJob, verdicts: Verdicts, now: float) -> FleetFields:
    """Return the fields about a job's pace, use, money, safety and place; null if unknown."""
    attempt = job.current
    return {
        "devices": attempt.world,
        "nodes": _nodes(attempt),
        "job_class": attempt.job_class or None,
        "project": verdicts.accounts.owner.get("project"),
        "pace": thinned(step_lengths(attempt, PACE_STEPS).seconds),
        "goodput": _goodput(verdicts, now),
        "cost_today": _cost_today(verdicts, attempt.job_class, now),
        "verified_checkpoint": _verified(job),
    }


def today(now: float) -> int:
    """Return the beginning of the UTC day, Unix seconds."""
    return int(now) // DAY_SECONDS * DAY_SECONDS


def thinned(seconds: Vector) -> list[float]:
    """Return at most `PACE_POINTS` means of neighbouring steps, with three digits.

    64 steps are 32 points, each the mean of two; the newest steps end the last point.
    """
    size = -(-len(seconds) // PACE_POINTS) or 1
    starts = np.arange(len(seconds) % size if len(seconds) >= size else 0, len(seconds), size)
    means = np.add.reduceat(seconds, starts) / size if len(starts) else seconds
    return [float(f"{mean:.3g}") for mean in means.tolist()]


def _nodes(attempt: Attempt) -> NodesOfJob:
    owners = attempt.claims.node_at
    numbers = np.unique(owners[owners >= 0])
    names = [*attempt.claims.nodes]
    return {"count": len(numbers), "first": sorted(names[n] for n in numbers)[:NAMED_NODES]}


def productive_ratio(entry: Integers) -> float | None:
    """Return the productive share of an account; None if nothing was allocated."""
    allocated = int(entry[: len(CAUSES)].sum())
    return round(int(entry[_PRODUCTIVE]) / allocated, 4) if allocated else None


def _goodput(verdicts: Verdicts, now: float) -> Goodput:
    days = verdicts.accounts.stored
    entry = days.get(today(now))
    return {
        "today": None if entry is None else productive_ratio(entry),
        "run": productive_ratio(np.sum([*days.values()], axis=0)) if days else None,
    }


def _cost_today(verdicts: Verdicts, job_class: str, now: float) -> Amount | None:
    """Return the price of the device time since midnight UTC; None without a rate."""
    day = today(now)
    rate = None if verdicts.rates is None else verdicts.rates.on(day, job_class)
    if verdicts.rates is None or rate is None:
        return None
    entry = verdicts.accounts.stored.get(day)
    seconds = 0.0 if entry is None else int(entry[: len(CAUSES)].sum()) / MICROSECONDS
    return {"amount": round(rate * seconds / 3600, 2), "currency": verdicts.rates.currency}


def _verified(job: LiveJob) -> VerifiedCheckpoint:
    """Return the newest good checkpoint of the newest run that has one."""
    is_saved = False
    for attempt, _ in reversed(job.runs().values()):
        by_step = attempt.checkpoints.by_step
        is_saved |= bool(by_step)
        good = [step for step, item in by_step.items() if item.is_good]
        if good:
            newest = by_step[max(good)]
            reason = "" if newest.saved_s is not None else "no rank reported when it was saved"
            return {"step": newest.step, "saved_at": newest.saved_s, "reason": reason}
    reason = "no checkpoint has verified" if is_saved else "no checkpoint is known"
    return {"step": None, "saved_at": None, "reason": reason}
