"""Each rank's memory over time: histories of a quarter minute, four minutes and half an hour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.folding.turns import newest_of_each, turns
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows

SHORT_DEPTH, SHORT_SECONDS = 16, 0.9
"""Short history: number of readings, and the least spacing; agents read every second."""
MIDDLE_DEPTH, MIDDLE_SECONDS = 16, 15.0
"""Middle history: four minutes show a leak that fills memory within hours."""
LONG_DEPTH, LONG_SECONDS = 64, 30.0
"""Long history: half an hour shows a slow leak."""
MANY_ROWS = 64
"""Rows per rank above which thinning before the update is faster."""

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


class Trend(NamedTuple):
    """Readings in time order, planes (ranks, readings): monotonic seconds, bytes and step.

    NaN if a rank has fewer readings.
    """

    seconds: Matrix
    bytes: Matrix
    steps: Matrix


class Readings:
    """Each rank's newest `depth` readings, at least `spacing` seconds apart."""

    def __init__(self, depth: int, spacing: float) -> None:
        self.depth = depth
        self.spacing = spacing
        self._planes = np.full((3, 0, depth), np.nan)
        self._count = np.zeros(0, dtype=np.int64)

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; existing values stay."""
        grown = np.full((3, world, self.depth), np.nan)
        grown[:, : len(self._count)] = self._planes
        count = np.zeros(world, dtype=np.int64)
        count[: len(self._count)] = self._count
        self._planes, self._count = grown, count

    def add(self, rows: Rows, field: str) -> None:
        """Add rows for existing ranks, each rank's rows in time order."""
        if len(rows) > MANY_ROWS and int(np.bincount(rows["rank"]).max()) > MANY_ROWS:
            rows = self._thinned(rows)
        for turn in turns(rows["rank"]):
            self.add_one_each(chosen(rows, turn), field)

    def _thinned(self, rows: Rows) -> Rows:
        """Return the rows that remain after sequential insertion; the others are only counted."""
        ranks, seconds = rows["rank"], rows["time_ns"] / NANOSECONDS
        present = np.unique(ranks)
        newest = self._planes[0, present, (self._count[present] - 1) % self.depth]
        last = dict(zip(present.tolist(), newest.tolist(), strict=True))
        due = np.zeros(len(rows), dtype=np.bool_)
        for index, (rank, moment) in enumerate(zip(ranks.tolist(), seconds.tolist(), strict=True)):
            if not moment - last[rank] < self.spacing:  # also true without a reading: NaN
                due[index], last[rank] = True, moment
        rows = chosen(rows, due)
        positions, skipped = newest_of_each(rows["rank"], self.depth)
        self._count[: len(skipped)] += skipped
        return chosen(rows, positions)

    def add_one_each(self, rows: Rows, field: str) -> None:
        """Add one row per rank, for existing ranks."""
        rank = rows["rank"]
        seconds = rows["time_ns"] / NANOSECONDS
        last = self._planes[0, rank, (self._count[rank] - 1) % self.depth]
        due = np.isnan(last) | (seconds - last >= self.spacing)
        rank, rows = rank[due], chosen(rows, due)
        slots = self._count[rank] % self.depth
        self._planes[0, rank, slots] = seconds[due]
        self._planes[1, rank, slots] = rows[field]
        self._planes[2, rank, slots] = rows["step"]
        self._count[rank] += 1

    @property
    def full(self) -> bool:
        """Whether some rank has all the readings that a trend needs."""
        return bool((self._count >= self.depth).any())

    def spans(self, least: float) -> bool:
        """Return whether a full rank's readings span at least `least` bytes."""
        sizes = self._planes[1]
        return bool((sizes.max(axis=1) - sizes.min(axis=1) >= least).any())

    def trend(self) -> Trend:
        """Return the readings, oldest first."""
        oldest = self._count % self.depth
        if len(oldest) and (oldest == oldest[0]).all():  # while no agent misses a reading
            return Trend(*np.roll(self._planes, -int(oldest[0]), axis=2))
        order = (oldest[:, None] + np.arange(self.depth)) % self.depth
        planes = np.take_along_axis(self._planes, order[None], axis=2)
        return Trend(*planes)


def _histories() -> tuple[Readings, Readings, Readings]:
    return (
        Readings(SHORT_DEPTH, SHORT_SECONDS),
        Readings(MIDDLE_DEPTH, MIDDLE_SECONDS),
        Readings(LONG_DEPTH, LONG_SECONDS),
    )


class MemoryHistory(JoinedTracker):
    """Host and device memory of one attempt's ranks."""

    kinds = frozenset({Kind.RANK_STATE, Kind.MEMORY})
    order = 5
    given_back = True

    def __init__(self) -> None:
        self.host = _histories()
        # Device readings arrive every five seconds: sixteen form the short history.
        self.device = _histories()
        self.device_limit = np.zeros(0)
        self._world = 0

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in RANK_STATE and MEMORY rows."""
        if (rows := batches.rows(Kind.RANK_STATE)) is not None:
            self.add_states(rows)
        if (rows := batches.rows(Kind.MEMORY)) is not None:
            attempt.refused_records += self.add_device(rows)

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit: a reading is three numbers."""
        return self._world * (SHORT_DEPTH + MIDDLE_DEPTH + LONG_DEPTH) * 2 // 4

    def resize(self, world: int) -> None:
        """Make room for `world` ranks."""
        for readings in (*self.host, *self.device):
            readings.resize(world)
        self.device_limit = np.concatenate(
            [self.device_limit, np.full(world - len(self.device_limit), np.nan)]
        )
        self._world = world

    def add_states(self, rows: Rows) -> None:
        """Add RANK_STATE rows, a rank with its children; resident memory 0 is unknown."""
        valid = chosen(rows, self._exists(rows) & (rows["resident_bytes"] > 0))
        if valid["children_bytes"].any():
            valid = valid.copy()
            valid["resident_bytes"] += valid["children_bytes"]
        for readings in self.host:
            readings.add(valid, "resident_bytes")

    def add_device(self, rows: Rows) -> int:
        """Add MEMORY rows; returns the number of refused invalid rows."""
        valid = chosen(rows, self._exists(rows))
        limited = valid[valid["limit_bytes"] > 0]
        self.device_limit[limited["rank"]] = limited["limit_bytes"]
        for readings in self.device:
            readings.add(valid, "allocated_bytes")
        return len(rows) - len(valid)

    def _exists(self, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        exists: np.ndarray[tuple[int], np.dtype[np.bool_]] = (rows["rank"] >= 0) & (
            rows["rank"] < self._world
        )
        return exists
