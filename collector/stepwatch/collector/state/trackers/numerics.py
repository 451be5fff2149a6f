"""Numerics reports from ranks: the first non-finite values, and replica digests."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.replicas import Comparison, Replicas
from stepwatch.signals.records import DTYPES, LOSS_SCALED, Kind, NumericsSource
from stepwatch.signals.wire import Rows

MAX_BAD = 16_384
"""Maximum rows with non-finite values, lowest steps first: only the first step is informative."""
MAX_SCALED, MAX_SCALED_OF_STEP = 8192, 64
"""Maximum rows for scaled losses' gradients, the newest, and per step: one rank or many."""
MAX_PENDING = 1 << 18
"""Maximum digests that wait for other replicas; above it the lowest steps' digests go."""
_ROW = DTYPES[Kind.NUMERICS]


class Numerics(Tracker):
    """Keeps the NUMERICS rows that detectors need, within limits."""

    kinds = frozenset({Kind.NUMERICS})
    given_back = True

    def __init__(self) -> None:
        self.bad: Rows = np.zeros(0, dtype=_ROW)
        self.scaled: Rows = np.zeros(0, dtype=_ROW)
        """Like `bad`, for gradients whose loss was scaled: healthy unless they persist."""
        self.replicas = Replicas()
        self._pending: Rows = np.zeros(0, dtype=_ROW)
        self._fresh = False
        self._groups_known = 0

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return len(self.bad) + len(self.scaled) + len(self._pending)

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply NUMERICS rows."""
        if (rows := batch.rows(Kind.NUMERICS)) is not None:
            attempt.refused_records += self.add(rows, attempt.world)

    def add(self, rows: Rows, world: int) -> int:
        """Add NUMERICS rows; returns the number of refused invalid rows."""
        in_world = (rows["rank"] >= 0) & (rows["rank"] < world)
        usable = rows[in_world & (rows["source"] & ~np.uint16(LOSS_SCALED) <= max(NumericsSource))]
        digests = usable["source"] == NumericsSource.PARAMETERS
        bad = usable[~digests & (usable["nonfinite"] > 0)]
        scaled = bad["source"] & LOSS_SCALED > 0
        if scaled.any():
            self.scaled = _thinned(np.concatenate([self.scaled, bad[scaled]]))
        if not scaled.all():
            self.bad = _lowest(np.concatenate([self.bad, bad[~scaled]]))
        fresh = usable[digests & (usable["digest_group"] > 0)]
        if len(fresh):
            self._pending = _newest(np.concatenate([self._pending, fresh]))
            self._fresh = True
        return len(rows) - len(usable)

    def get_over(self, step: int) -> None:
        """Drop non-finite rows up to `step`: the run continues unharmed."""
        self.bad = self.bad[self.bad["step"] > step]
        self.scaled = self.scaled[self.scaled["step"] > step]

    def compare(self, groups: dict[int, Group]) -> list[Comparison]:
        """Compare digests that all replicas sent; returns the present disputes."""
        # Digests may wait for ever for a silent replica: only new ones are compared.
        if len(self._pending) and (self._fresh or len(groups) != self._groups_known):
            self._compare(groups)
            self._fresh, self._groups_known = False, len(groups)
        return list(self.replicas.disputes.values())

    def _compare(self, groups: dict[int, Group]) -> None:
        rows = self._pending
        names = ("digest_group", "step", "digest_part", "rank")
        rows = rows[np.lexsort([rows[name] for name in names[::-1]])]
        rows = rows[_starts(rows, names)]
        starts = _starts(rows, names[:-1])
        counts = np.diff(np.append(starts, len(rows)))
        numbers, place = np.unique(rows["digest_group"][starts], return_inverse=True)
        sizes = np.array([_size(groups, number) for number in numbers.tolist()])[place]
        complete = (counts == sizes) & (sizes > 1)
        agrees = np.minimum.reduceat(rows["digest"], starts) == np.maximum.reduceat(
            rows["digest"], starts
        )
        for index in np.flatnonzero(complete):
            part = rows[starts[index] : starts[index] + counts[index]]
            members = groups[int(part["digest_group"][0])].ranks
            self.replicas.compare(part, members, agree=bool(agrees[index]))
        self._pending = rows[np.repeat(~complete, counts)]


def _lowest(rows: Rows) -> Rows:
    """Return the lowest steps' rows, at most `MAX_BAD`."""
    if len(rows) <= MAX_BAD:
        return rows
    return rows[np.argsort(rows["step"], kind="stable")[:MAX_BAD]]


def _newest(rows: Rows) -> Rows:
    """Return the highest steps' rows, at most `MAX_PENDING`."""
    if len(rows) <= MAX_PENDING:
        return rows
    return rows[np.argsort(rows["step"], kind="stable")[-MAX_PENDING:]]


def _thinned(rows: Rows) -> Rows:
    """Return the newest steps' rows, at most `MAX_SCALED_OF_STEP` per step."""
    rows = rows[np.argsort(rows["step"], kind="stable")]
    place = np.arange(len(rows)) - np.searchsorted(rows["step"], rows["step"])
    return rows[place < MAX_SCALED_OF_STEP][-MAX_SCALED:]


def _starts(rows: Rows, names: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return where these fields change in rows sorted by them."""
    changes = np.zeros(len(rows), dtype=bool)
    changes[0] = True
    for name in names:
        changes[1:] |= rows[name][1:] != rows[name][:-1]
    starts: np.ndarray[tuple[int], np.dtype[np.int64]] = np.flatnonzero(changes)
    return starts


def _size(groups: dict[int, Group], number: int) -> int:
    group = groups.get(number)
    return 0 if group is None else group.size
