"""Divides the steps' allocated device-time among causes, to the microsecond. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.collector.slo.held_up import STALL_SECONDS, STALL_TIMES, held_up_share
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.signals.arrays import Vector

from .causes import CAUSES, Spent

Accounts = np.ndarray[tuple[int, int], np.dtype[np.int64]]
"""Microseconds of device-time (steps, causes), columns in the order of `CAUSES`."""
MICROSECONDS = 1_000_000
_FLOATS = np.dtype(np.float64)
_MOST = np.finfo(_FLOATS).max


def partition(attempt: AttemptSteps) -> Accounts:
    """Return the causes of each step's allocated time, in step order.

    Allocated is all ranks' time since the previous step's end, or since the attempt's start. The
    columns sum to it exactly: cumulative times are cut to microseconds, so the sums over all steps
    equal the whole time.

    Worked example: two ranks, 1.0 s since the previous step; both report 0.9 s, with rank 0 in a
    collective for 0.3 s and rank 1 for 0.1 s -> 1.4 s productive, 0.2 s straggling, 0.2 s exposed
    communication, 0.2 s unknown: between the steps.
    """
    steps = attempt.steps
    total = _cut(np.cumsum(steps.allocated) * steps.world)
    parts = _parts(attempt)
    accounts = np.zeros((len(total), len(CAUSES)), dtype=np.int64)
    for place, cause in enumerate(CAUSES):
        if cause in parts:
            accounts[:, place] = np.floor(parts[cause] * MICROSECONDS)
    unknown = CAUSES.index(Spent.UNKNOWN)
    accounts[:, unknown] = 0
    accounts[:, unknown] = total - accounts.sum(axis=1)
    # Floats may sum to a microsecond too much: the largest part is reduced.
    over = np.flatnonzero(accounts[:, unknown] < 0)
    if len(over):
        largest = np.argmax(accounts[over], axis=1)
        accounts[over, largest] += accounts[over, unknown]
        accounts[over, unknown] = 0
    return accounts


def _cut(cumulative: Vector) -> Any:
    """Return each step's whole microseconds, from cumulative seconds."""
    return np.diff(np.floor(cumulative * MICROSECONDS).astype(np.int64), prepend=0)


def _parts(attempt: AttemptSteps) -> dict[Spent, Vector]:
    """Return device-seconds by cause (steps,) except unknown: at most the allocation."""
    steps = attempt.steps
    world, observed = steps.world, np.minimum(steps.observed, steps.world).astype(_FLOATS)
    allocated = steps.allocated * world
    observed_time = steps.allocated * observed
    usual = np.where(np.isnan(attempt.baseline_seconds), np.inf, attempt.baseline_seconds)
    spent = _within_steps(attempt, observed)
    held_up = held_up_share(attempt)
    for cause in spent:
        if cause not in (Spent.CHECKPOINT_STALL, Spent.EVALUATION):
            spent[cause] = spent[cause] * (1.0 - held_up)
    spent[Spent.STALL] = steps.busy * held_up
    explained = np.sum([*spent.values()], axis=0)
    gap = np.maximum(observed_time - explained, 0.0)
    # Host and device clocks differ: times that exceed the allocation are scaled down.
    scale = np.divide(
        observed_time, explained, out=np.ones_like(explained), where=explained > observed_time
    )
    spent = {cause: seconds * scale for cause, seconds in spent.items()}
    between = np.divide(gap, observed, out=np.zeros_like(gap), where=observed > 0)
    stands = between > np.maximum(STALL_SECONDS, _finite(STALL_TIMES * usual))
    spent[Spent.STALL] = spent[Spent.STALL] + np.where(stands, gap, 0.0)
    if len(allocated) and not (attempt.dropped is not None and attempt.dropped.count):
        spent = _with_start_up(spent, gap[0], float(usual[0]) * world)
    # A step ended by an exception keeps no work: it is a stall, if it was long.
    redone, unfinished = steps.lost, steps.unfinished & ~steps.lost
    stood = unfinished & (steps.allocated > np.maximum(STALL_SECONDS, _finite(STALL_TIMES * usual)))
    spent = {cause: np.where(redone | unfinished, 0.0, seconds) for cause, seconds in spent.items()}
    spent[Spent.STALL] = np.where(stood, allocated, spent[Spent.STALL])
    spent[Spent.REDONE] = np.where(redone, allocated, 0.0)
    return spent


def _within_steps(attempt: AttemptSteps, observed: Vector) -> dict[Spent, Vector]:
    """Return the reporting ranks' device-seconds by cause; an unsplit step has only its pauses."""
    steps, parts = attempt.steps, attempt.steps.parts
    data, waits, bubble = (
        parts[name].astype(_FLOATS) for name in ("data", "collective", "pipeline_wait")
    )
    least = np.where(np.isfinite(parts["least_collective"]), parts["least_collective"], 0.0)
    transfer = np.minimum(least * observed, waits)
    work = steps.busy - data - waits - bubble
    spent = {
        Spent.PRODUCTIVE: work,
        Spent.STRAGGLING: waits - transfer,
        Spent.EXPOSED_COMMUNICATION: transfer,
        Spent.BUBBLE: bubble,
        Spent.DATA_WAIT: data,
        Spent.CHECKPOINT_STALL: parts["checkpoint"].astype(_FLOATS),
        Spent.EVALUATION: parts["eval"].astype(_FLOATS),
    }
    return {cause: np.minimum(np.fmax(seconds, 0.0), _MOST) for cause, seconds in spent.items()}


def _finite(seconds: Vector) -> Vector:
    return np.where(np.isfinite(seconds), seconds, 0.0)


def _with_start_up(
    spent: dict[Spent, Vector], gap: float, usual_step: float
) -> dict[Spent, Vector]:
    """Count the time before the first step, and its excess over a usual step, as start-up."""
    spent = {cause: seconds.copy() for cause, seconds in spent.items()}
    work = float(spent[Spent.PRODUCTIVE][0])
    beyond = max(0.0, work - usual_step)
    stall = float(spent[Spent.STALL][0])
    start_up = np.zeros_like(spent[Spent.PRODUCTIVE])
    start_up[0] = beyond + (gap if stall < gap else 0.0) + stall
    spent[Spent.PRODUCTIVE][0] -= beyond
    spent[Spent.STALL][0] = 0.0
    spent[Spent.START_UP] = start_up
    return spent
