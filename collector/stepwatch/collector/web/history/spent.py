"""Device-time by cause over time: where each bucket's device-seconds went."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.job_state import is_stalled
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.standing import standing
from stepwatch.collector.slo.waste import CAUSES
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals.arrays import Matrix, Vector

from .asked import MOST_POINTS, Range
from .curves import about_job
from .lengths import round_length
from .numbers import values, wholes
from .packing import packed, unpacked
from .pieces import joined, nothing, of_run, of_tail

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


def _copied(job: LiveJob, verdicts: Verdicts, now: float) -> Spent:
    attempts = attempt_steps(job)
    tails = standing(job, attempts, hangs=is_stalled(verdicts.open_incidents()))
    pieces = [
        *(of_run(attempt) for attempt in attempts.values()),
        *(of_tail(tail) for run_tails in tails.values() for tail in run_tails),
    ]
    begins, ends, seconds = joined([nothing(), *pieces])
    order = np.argsort(ends, kind="stable")
    begins, ends, seconds = begins[order], ends[order], seconds[order]
    begins = np.clip(begins, np.append(-np.inf, ends[:-1]), ends)
    return Spent(about_job(job, verdicts, now), begins, ends, seconds)


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
