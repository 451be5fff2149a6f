"""Pieces of time and their device-time by cause: steps, dropped steps, time outside steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.waste import CAUSES, DAY_SECONDS, MICROSECONDS, Spent, Tail, entries
from stepwatch.collector.state.trackers.steps.dropped_curves import SPANS, Dropped
from stepwatch.collector.state.trackers.steps.dropped_steps import DroppedSteps
from stepwatch.signals.arrays import IntegerMatrix, Matrix, Vector

Piece = tuple[Vector, Vector, Matrix]
"""Begins and ends (pieces,) in Unix seconds, and device-seconds (pieces, causes)."""


def nothing() -> Piece:
    """Return no time."""
    return np.zeros(0), np.zeros(0), np.zeros((0, len(CAUSES)))


def of_run(attempt: AttemptSteps) -> Piece:
    """Return a run's steps in memory, and before them the buckets of dropped ones."""
    seconds = entries(attempt)[:, : len(CAUSES)] / MICROSECONDS
    ends = attempt.steps.end_s
    held = ends - attempt.steps.allocated, ends, seconds
    if attempt.dropped is None or not attempt.dropped.count:
        return held
    return joined([*_of_dropped(attempt, attempt.dropped), held])


def joined(pieces: Sequence[Piece]) -> Piece:
    """Return several pieces as one."""
    begins, ends, seconds = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return begins, ends, seconds


def _of_dropped(attempt: AttemptSteps, dropped: DroppedSteps) -> Iterator[Piece]:
    """Yield the dropped steps' device-time, coarsest first, each part of it once.

    Buckets of an hour from 0 to 7200 s, and of 5 min from 5400 s on: the hours, then the buckets
    from 7200 s on. Of days before all buckets only the sums are known.
    """
    begins_s, pieces = math.inf, list[Piece]()
    for seconds in SPANS:
        part = dropped.curves.span(seconds)
        if part is None:
            continue
        starts = part.rows["start_s"].astype(np.float64)
        is_older = starts < begins_s
        if is_older.any():
            end_s = float(starts[is_older].max()) + seconds
            pieces = [_since(piece, end_s) for piece in pieces]
            spent = _redone(part, attempt.redone_from)[is_older] / MICROSECONDS
            ends = np.minimum(starts[is_older] + seconds, part.rows["at"][is_older])
            pieces.append(_piece(attempt, starts[is_older], ends, spent))
            begins_s = float(starts.min())
    yield _of_days(attempt, dropped, begins_s)
    yield from reversed(pieces)


def _since(piece: Piece, moment_s: float) -> Piece:
    begins, ends, seconds = piece
    later = ends > moment_s
    return begins[later], ends[later], seconds[later]


def _piece(attempt: AttemptSteps, begins: Vector, ends: Vector, spent: Matrix) -> Piece:
    """Return pieces that are long enough for all devices: a step may begin before its bucket."""
    devices = max(attempt.steps.world, 1)
    return np.minimum(begins, ends - spent.sum(axis=1) / devices), ends, spent


def _redone(part: Dropped, redone_from: int | None) -> IntegerMatrix:
    """Return the device-time by cause, with the productive time of redone steps as redone.

    Of a bucket with some redone steps, their part counts by number.
    """
    spent = part.spent.copy()
    if redone_from is not None:
        first, last = part.rows["first_step"], part.rows["step"]
        share = np.clip((last + 1 - redone_from) / (last + 1 - first), 0.0, 1.0)
        productive, redone = CAUSES.index(Spent.PRODUCTIVE), CAUSES.index(Spent.REDONE)
        moved = np.rint(spent[:, productive] * share).astype(np.int64)
        spent[:, productive] -= moved
        spent[:, redone] += moved
    return spent


def _of_days(attempt: AttemptSteps, dropped: DroppedSteps, until_s: float) -> Piece:
    """Return the days before the first bucket; the buckets' time is not in the last day."""
    days = np.array(sorted(day for day in dropped.accounts if day < until_s), dtype=np.int64)
    hours = dropped.curves.span(max(SPANS))
    if not len(days) or hours is None:
        return nothing()
    sums = np.array([dropped.accounts[day][: len(CAUSES)] for day in days.tolist()])
    in_last = hours.rows["start_s"] // DAY_SECONDS * DAY_SECONDS == days[-1]
    sums[-1] -= hours.spent[in_last].sum(axis=0)
    spent = np.maximum(sums, 0) / MICROSECONDS
    ends = np.minimum(days + DAY_SECONDS, until_s).astype(np.float64)
    return np.maximum(days, ends - spent.sum(axis=1) / max(attempt.steps.world, 1)), ends, spent


def of_tail(tail: Tail) -> Piece:
    """Return time outside steps."""
    seconds = np.zeros((1, len(CAUSES)))
    seconds[0, CAUSES.index(tail.cause)] = tail.seconds
    return np.array([tail.begins_s]), np.array([tail.ends_s]), seconds
