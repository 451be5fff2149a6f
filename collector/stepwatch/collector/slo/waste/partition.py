"""Divides the steps' allocated device-time among causes, to the microsecond. Pure."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.registry import STALL_SECONDS, STALL_TIMES, AttemptSteps
from stepwatch.signals.arrays import Integers, Matrix, Vector

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
    accounts = np.zeros((len(total), len(CAUSES)), dtype=np.int64)
    accounts[:, _PLACES] = np.floor(_parts(attempt) * MICROSECONDS).T
    unknown = CAUSES.index(Spent.UNKNOWN)
    accounts[:, unknown] = total - accounts.sum(axis=1)
    # Floats may sum to a microsecond too much: the largest part is reduced.
    over = np.flatnonzero(accounts[:, unknown] < 0)
    if len(over):
        largest = np.argmax(accounts[over], axis=1)
        accounts[over, largest] += accounts[over, unknown]
        accounts[over, unknown] = 0
    return accounts


_ROWS = (
    *(Spent.PRODUCTIVE, Spent.STRAGGLING, Spent.EXPOSED_COMMUNICATION, Spent.BUBBLE),
    *(Spent.DATA_WAIT, Spent.CHECKPOINT_STALL, Spent.EVALUATION),
    *(Spent.STALL, Spent.START_UP, Spent.REDONE),
)
"""The causes of time in steps: work, then pauses, then what is decided for a whole step."""
_PLACES = [CAUSES.index(cause) for cause in _ROWS]
_PRODUCTIVE, _STALL, _START_UP, _REDONE = (
    _ROWS.index(cause) for cause in (Spent.PRODUCTIVE, Spent.STALL, Spent.START_UP, Spent.REDONE)
)
_WORK = slice(_ROWS.index(Spent.CHECKPOINT_STALL))
_REPORTED = slice(_STALL)


def _cut(cumulative: Vector) -> Integers:
    """Return each step's whole microseconds, from cumulative seconds."""
    microseconds = np.floor(cumulative * MICROSECONDS).astype(np.int64)
    microseconds[1:] -= microseconds[:-1].copy()
    return microseconds


def _parts(attempt: AttemptSteps) -> Matrix:
    """Return device-seconds (causes, steps) for `_ROWS`: at most the allocation in sum."""
    steps = attempt.steps
    world, observed = steps.world, np.minimum(steps.observed, steps.world).astype(_FLOATS)
    observed_time = steps.allocated * observed
    usual = np.where(np.isnan(attempt.baseline_seconds), np.inf, attempt.baseline_seconds)
    longest = np.maximum(STALL_SECONDS, _finite(STALL_TIMES * usual))
    spent = np.zeros((len(_ROWS), len(observed)))
    _within_steps(attempt, observed, spent[_REPORTED])
    held_up = attempt.held_up_share
    if held_up.any():
        spent[_WORK] *= 1.0 - held_up
        spent[_STALL] = steps.busy * held_up
    explained = spent.sum(axis=0)
    gap = np.maximum(observed_time - explained, 0.0)
    # Host and device clocks differ: times that exceed the allocation are scaled down.
    exceeds = explained > observed_time
    if exceeds.any():
        spent *= np.divide(observed_time, explained, out=np.ones_like(explained), where=exceeds)
    between = np.divide(gap, observed, out=np.zeros_like(gap), where=observed > 0)
    spent[_STALL] += np.where(between > longest, gap, 0.0)
    if len(observed) and not (attempt.dropped is not None and attempt.dropped.count):
        _count_start_up(spent[:, 0], gap[0], float(usual[0]) * world)
    ended = steps.lost | steps.unfinished
    if ended.any():
        allocated = steps.allocated * world
        # A step ended by an exception keeps no work: it is a stall, if it was long.
        stood = steps.unfinished & ~steps.lost & (steps.allocated > longest)
        spent[:, ended] = 0.0
        spent[_STALL, stood] = allocated[stood]
        spent[_REDONE, steps.lost] = allocated[steps.lost]
    return spent


def _within_steps(attempt: AttemptSteps, observed: Vector, spent: Matrix) -> None:
    """Write the reporting ranks' device-seconds (causes, steps) for `_ROWS` before the stall.

    An unsplit step has only its pauses.
    """
    steps, parts = attempt.steps, attempt.steps.parts
    work, straggling, transfer, bubble, data, saved, evaluated = spent
    data[:], bubble[:] = parts["data"], parts["pipeline_wait"]
    saved[:], evaluated[:] = parts["checkpoint"], parts["eval"]
    waits, least = parts["collective"].astype(_FLOATS), parts["least_collective"]
    np.minimum(np.where(np.isfinite(least), least, 0.0) * observed, waits, out=transfer)
    np.subtract(waits, transfer, out=straggling)
    work[:] = steps.busy - data - waits - bubble
    np.minimum(np.fmax(spent, 0.0), _MOST, out=spent)


def _finite(seconds: Vector) -> Vector:
    return np.where(np.isfinite(seconds), seconds, 0.0)


def _count_start_up(spent: Vector, gap: float, usual_step: float) -> None:
    """Count the time before the first step, and its excess over a usual step, as start-up.

    `spent` (causes,) is the first step's column, changed in place.
    """
    beyond = max(0.0, float(spent[_PRODUCTIVE]) - usual_step)
    stall = float(spent[_STALL])
    spent[_START_UP] = beyond + (gap if stall < gap else 0.0) + stall
    spent[_PRODUCTIVE] -= beyond
    spent[_STALL] = 0.0
