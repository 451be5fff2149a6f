"""Device-time by cause over time: where each bucket's device-seconds went."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.job_state import is_stalled
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.standing import standing
from stepwatch.collector.slo.waste import CAUSES, DAY_SECONDS, MICROSECONDS, Tail, entries
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals.arrays import Matrix, Vector
from stepwatch.signals.clock import NANOSECONDS

from .asked import MOST_POINTS, Range
from .curves import about_job
from .lengths import round_length
from .numbers import values, wholes
from .packing import packed, unpacked

LEAST_SECONDS = 10.0
"""Shortest bucket: the shortest SLI slice."""


class Spent(NamedTuple):
    """A job's device-time in pieces, by their ends, which rise.

    `begins` and `ends` (pieces,) are Unix seconds, `seconds` (pieces, causes) device-seconds in the
    order of `CAUSES`, spread evenly over a piece.
    """

    about: dict[str, Any]
    begins: Vector
    ends: Vector
    seconds: Matrix

    def until(self, moments: Vector) -> Matrix:
        """Return the device-seconds before each of `moments` (moments, causes).

        Pieces 0 to 10 and 20 to 30 with 4 and 6 device-seconds: 2 before 5, 4 before 15, 10 after.
        """
        sums = np.concatenate([np.zeros((1, len(CAUSES))), np.cumsum(self.seconds, axis=0)])
        place = np.searchsorted(self.ends, moments)
        inside = np.minimum(place, len(self.ends) - 1)
        lengths = np.maximum(self.ends - self.begins, 1e-9)[inside]
        share = np.clip((moments - self.begins[inside]) / lengths, 0.0, 1.0)
        share[place == len(self.ends)] = 0.0
        return np.asarray(sums[place] + share[:, None] * self.seconds[inside])


_Piece = tuple[Vector, Vector, Matrix]


def _copied(job: LiveJob, verdicts: Verdicts, now: float) -> Spent:
    attempts = attempt_steps(job)
    tails = standing(job, attempts, hangs=is_stalled(verdicts.open_incidents()))
    pieces = [
        *(_of_steps(attempt) for attempt in attempts.values()),
        *(_of_days(attempt) for attempt in attempts.values()),
        *(_of_tail(tail) for run_tails in tails.values() for tail in run_tails),
    ]
    begins, ends, seconds = (
        np.concatenate(column) for column in zip(_nothing(), *pieces, strict=True)
    )
    order = np.argsort(ends, kind="stable")
    begins, ends, seconds = begins[order], ends[order], seconds[order]
    begins = np.clip(begins, np.append(-np.inf, ends[:-1]), ends)
    return Spent(about_job(job, verdicts, now), begins, ends, seconds)


def _nothing() -> _Piece:
    return np.zeros(0), np.zeros(0), np.zeros((0, len(CAUSES)))


def _of_steps(attempt: AttemptSteps) -> _Piece:
    """Return the steps in memory: each has the time since the previous step's end."""
    seconds = entries(attempt)[:, : len(CAUSES)] / MICROSECONDS
    ends = attempt.steps.end_s
    return ends - attempt.steps.allocated, ends, seconds


def _of_days(attempt: AttemptSteps) -> _Piece:
    """Return the steps that are no longer in memory: of each day only the sums are known."""
    dropped = attempt.dropped
    if dropped is None or not dropped.accounts:
        return _nothing()
    days = np.array(sorted(dropped.accounts), dtype=np.float64)
    sums = np.array([dropped.accounts[int(day)][: len(CAUSES)] for day in days]) / MICROSECONDS
    last_s = dropped.end_ns / NANOSECONDS
    devices = max(attempt.steps.world, 1)
    ends = np.minimum(days + DAY_SECONDS, last_s)
    return np.maximum(days, ends - sums.sum(axis=1) / devices), ends, sums


def _of_tail(tail: Tail) -> _Piece:
    seconds = np.zeros((1, len(CAUSES)))
    seconds[0, CAUSES.index(tail.cause)] = tail.seconds
    return np.array([tail.begins_s]), np.array([tail.ends_s]), seconds


def spent_document(spent: Spent, asked: Range) -> dict[str, Any]:
    """Return the device-seconds by cause in buckets of one round length.

    A bucket without allocated time has null for each cause.
    """
    at, length, sums = _buckets(spent, asked)
    known = sums.sum(axis=1) > 0
    sums[~known] = np.nan
    return {
        **spent.about,
        "at": wholes(at.astype(np.int64)),
        "seconds": wholes(np.full(len(at), int(length))),
        "causes": {str(cause): values(sums[:, place]) for place, cause in enumerate(CAUSES)},
    }


def _buckets(spent: Spent, asked: Range) -> tuple[Vector, float, Matrix]:
    if not len(spent.ends):
        return np.zeros(0), LEAST_SECONDS, np.zeros((0, len(CAUSES)))
    first = max(asked.from_s, float(spent.begins.min()))
    last = min(asked.to_s, float(spent.ends.max()))
    length = round_length(max((last - first) / max(asked.points - 2, 1), LEAST_SECONDS))
    edges = np.arange(np.floor(first / length), np.ceil(last / length) + 1) * length
    if last <= first or len(edges) < 2:
        return np.zeros(0), length, np.zeros((0, len(CAUSES)))
    return edges[:-1], length, np.diff(spent.until(edges), axis=0)


def _packed(spent: Spent) -> bytes:
    """Return at most `MOST_POINTS` pieces as bytes."""
    step = max(1, -(-len(spent.ends) // MOST_POINTS))
    first = np.arange(0, len(spent.ends), step)
    last = np.append(first[1:], len(spent.ends)) - 1 if len(first) else first
    sums = np.add.reduceat(spent.seconds, first) if len(first) else spent.seconds
    return packed({"about": spent.about}, [spent.begins[first], spent.ends[last], sums])


def read_spent(value: Any) -> Spent:
    """Return the pieces in an answer of either view."""
    if isinstance(value, Spent):
        return value
    header, arrays = unpacked(value)
    return Spent(header["about"], *arrays)


SPENT = View("spent", _copied)
SHARED_SPENT = View("spent-packed", _copied, _packed)
"""The same as bytes, for collectors that do not hold the job."""
