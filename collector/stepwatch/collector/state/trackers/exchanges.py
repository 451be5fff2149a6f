"""Which ranks of one attempt exchange tensors step after step, and the stages that this shows."""

from __future__ import annotations

from itertools import islice

import numpy as np

from stepwatch.collector.state.neighbours import stages_of
from stepwatch.collector.state.tracker import (
    MAX_WORLD,
    Batches,
    JoinedTracker,
    TrackedAttempt,
)
from stepwatch.signals.arrays import Rows, SmallIntegers
from stepwatch.signals.records import Kind, Op

LEAST_STEPS = 4
"""Steps in which both ranks of a pair must have sent: one tensor now and then is no pipeline."""
MAX_PAIRS = 2 * MAX_WORLD

Pair = tuple[int, int]


class Exchanges(JoinedTracker):
    """Pairs of ranks that send to each other; `stage` (world,) is None where they show none."""

    kinds = frozenset({Kind.COLLECTIVE, Kind.GROUP})
    order = 21

    def __init__(self) -> None:
        self.stage: SmallIntegers | None = None
        self._pairs: dict[int, Pair] = {}
        self._steps: dict[tuple[int, int], set[int]] = {}
        self._known: tuple[int, frozenset[Pair]] = (0, frozenset())

    @property
    def cells(self) -> int:
        """What it holds, for the bound on live state."""
        return len(self._pairs) + len(self._steps)

    def resize(self, world: int) -> None:
        """Forget the stages of another number of ranks; the next rows show them anew."""
        self.stage, self._known = None, (0, frozenset())

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold GROUP rows of pairs in, and sends between them."""
        if (groups := batches.rows(Kind.GROUP)) is not None:
            self._name(groups[groups["size"] == 2])
        if (rows := batches.rows(Kind.COLLECTIVE)) is not None:
            self._count(rows[rows["op"] == Op.SEND])
        known = attempt.world, frozenset(self._both_send())
        if known != self._known:
            self._known = known
            self.stage = stages_of(known[1], attempt.world)

    def _name(self, rows: Rows) -> None:
        for number, text in zip(rows["group"].tolist(), rows["text"].tolist(), strict=True):
            members = bytes(text).decode("ascii", "replace").split(",")
            is_pair = len(members) == 2 and all(each.isdigit() for each in members)
            if is_pair and len(self._pairs) < MAX_PAIRS:
                self._pairs[number] = int(members[0]), int(members[1])

    def _count(self, rows: Rows) -> None:
        """Remember the first steps in which a rank sent within a pair."""
        sent = np.unique(rows[["group", "rank", "step"]])
        for group, rank, step in islice(sent.tolist(), MAX_PAIRS):
            steps = self._steps.get((group, rank))
            if steps is None and len(self._steps) < MAX_PAIRS:
                steps = self._steps[group, rank] = set()
            if steps is not None and len(steps) < LEAST_STEPS:
                steps.add(step)

    def _both_send(self) -> list[Pair]:
        return [
            pair
            for number, pair in self._pairs.items()
            if all(len(self._steps.get((number, rank), ())) >= LEAST_STEPS for rank in pair)
        ]
