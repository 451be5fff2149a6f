"""Which ranks exchange tensors in every step, and the pipeline stages derived from that."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from stepwatch.collector.state.tracker import (
    MAX_WORLD,
    Batches,
    JoinedTracker,
    TrackedAttempt,
)
from stepwatch.collector.state.trackers.communication.neighbours import stages_of
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.signals.arrays import Integers, Rows, SmallIntegers
from stepwatch.signals.records import Kind, Op

LEAST_STEPS = 4
"""Steps in which both ranks in a pair must send: an occasional tensor is not a pipeline."""
MAX_PAIRS = 2 * MAX_WORLD

Pair = tuple[int, int]


class Exchanges(JoinedTracker):
    """Rank pairs that send to each other; `stage` (world,) is None if they form no pipeline."""

    kinds = frozenset({Kind.COLLECTIVE, Kind.GROUP})
    order = 21

    def __init__(self) -> None:
        self.stage: SmallIntegers | None = None
        self._pairs: dict[int, Pair] = {}
        self._steps: dict[tuple[int, int], set[int]] = {}
        self._known: set[Pair] = set()
        self._shown: set[int] = set()
        """Ranks in the known exchanging pairs."""
        self._world = 0
        """World size for `stage`; 0 forces a new derivation with the next rows."""
        self._changes: list[tuple[int, SmallIntegers | None]] = []
        """Batches in the current group that changed `stage`, with its previous value."""

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return len(self._pairs) + len(self._steps)

    def resize(self, world: int) -> None:
        """Discard the stages; the next rows derive them for the new world size."""
        self.stage, self._world = None, 0

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in GROUP rows for pairs, and sends within pairs: batch by batch, if any is new."""
        groups, calls = batches.table(Kind.GROUP), batches.table(Kind.COLLECTIVE)
        named = np.flatnonzero(groups.rows["size"] == 2)
        sent = np.flatnonzero(calls.rows["op"] == Op.SEND)
        sent = sent[self._are_new(calls.rows[sent])]
        fresh = {*groups.origin[named].tolist(), *calls.origin[sent].tolist()}
        either = (groups.counts > 0) | (calls.counts > 0)
        if self._world != attempt.world and either.any():
            fresh.add(int(np.argmax(either)))
        for batch in sorted(fresh):
            touched = self._name(_rows_of_batch(groups.rows, groups.origin, named, batch))
            touched += self._count(_rows_of_batch(calls.rows, calls.origin, sent, batch))
            if self._exchange(touched) or self._world != attempt.world:
                self._show(batch, attempt.world)

    def changes_within(self, first: int, last: int) -> bool:
        """Return whether `stage` differs between batches `first` to `last - 1` in the group."""
        return any(first < batch < last for batch, _ in self._changes)

    def stage_after(self, batch: int | None) -> SmallIntegers | None:
        """Return `stage` after a batch in the current group; its present value for None."""
        for later, previous in self._changes:
            if batch is not None and later > batch:
                return previous
        return self.stage

    def forget_changes(self) -> None:
        """Discard the changes once all trackers have seen the group."""
        self._changes = []

    def _are_new(self, rows: Rows) -> Integers:
        """Return the positions of sends from ranks not yet known to send in every step."""
        keys = rows["group"].astype(np.int64) << 32 | rows["rank"].astype(np.int64)
        senders, positions = np.unique(keys, return_inverse=True)
        few = [
            len(self._steps.get((key >> 32, key & 0xFFFFFFFF), ())) < LEAST_STEPS
            for key in senders.tolist()
        ]
        return np.flatnonzero(np.array(few, dtype=np.bool_)[positions])

    def _name(self, rows: Rows) -> list[int]:
        """Store pairs; returns the numbers of new or changed groups."""
        touched = []
        for number, text in zip(rows["group"].tolist(), rows["text"].tolist(), strict=True):
            members = bytes(text).decode("ascii", "replace").split(",")
            is_pair = len(members) == 2 and all(member.isdigit() for member in members)
            if not is_pair or len(self._pairs) >= MAX_PAIRS:
                continue
            pair = int(members[0]), int(members[1])
            if self._pairs.get(number) != pair:
                self._pairs[number] = pair
                touched.append(number)
        return touched

    def _count(self, rows: Rows) -> list[int]:
        """Store the first steps in which a rank sent within a pair.

        Returns the numbers of groups in which a rank has now sent often enough.
        """
        touched = []
        sent = np.unique(rows[["group", "rank", "step"]])
        for group, rank, step in islice(sent.tolist(), MAX_PAIRS):
            steps = self._steps.get((group, rank))
            if steps is None and len(self._steps) < MAX_PAIRS:
                steps = self._steps[group, rank] = set()
            if steps is not None and len(steps) < LEAST_STEPS:
                steps.add(step)
                if len(steps) == LEAST_STEPS:
                    touched.append(group)
        return touched

    def _exchange(self, touched: Iterable[int]) -> bool:
        """Add the exchanging pairs among the groups `touched`; return whether any is new."""
        pairs = {self._pairs[number] for number in touched if self._both_send(number)}
        fresh = pairs - self._known
        self._known |= fresh
        self._shown.update(rank for pair in fresh for rank in pair)
        return bool(fresh)

    def _both_send(self, number: int) -> bool:
        pair = self._pairs.get(number)
        return pair is not None and all(
            len(self._steps.get((number, rank), ())) >= LEAST_STEPS for rank in pair
        )

    def _show(self, batch: int, world: int) -> None:
        """Derive the stages again if the pairs cover all ranks."""
        previous, self._world = self.stage, world
        self.stage = stages_of(self._known, world) if len(self._shown) >= world else None
        if not _equal_stages(previous, self.stage):
            self._changes.append((batch, previous))


def stages_known(attempt: TrackedAttempt, batch: int | None = None) -> SmallIntegers:
    """Return each rank's pipeline stage (world,), -1 while unknown.

    Rank reports take precedence; else the exchanges show it, after a batch in the current group or
    at present.
    """
    reported, shown = attempt.tracker(Ranks).stage, attempt.tracker(Exchanges).stage_after(batch)
    if shown is None or len(shown) != attempt.world or bool((reported > 0).any()):
        return reported
    return shown


def _rows_of_batch(rows: Rows, origin: Integers, selection: Integers, batch: int) -> Rows:
    """Return the selected rows that come from a batch."""
    low, high = np.searchsorted(origin[selection], (batch, batch + 1))
    return rows[selection[low:high]]


def _equal_stages(first: SmallIntegers | None, second: SmallIntegers | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)
