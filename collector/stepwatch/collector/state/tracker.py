"""What every tracker of an attempt shares: the batches it is given and the face it has.

A tracker follows one signal of an attempt. It names the kinds of records it takes, applies their
rows, says how many cells it holds, and gives them back when the attempt is released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self, TypeVar

from stepwatch.collector.state.folding.batches import Batch, Batches, Received
from stepwatch.collector.state.totals import Totals
from stepwatch.signals.records import Kind

__all__ = [
    "CELL_BYTES",
    "MAX_NODES",
    "MAX_WORLD",
    "Batch",
    "Batches",
    "JoinedTracker",
    "Received",
    "TrackedAttempt",
    "Tracker",
]

CELL_BYTES = 62
MAX_WORLD = 131_072
MAX_NODES = 16_384

T = TypeVar("T", bound="Tracker")


class Tracker(ABC):
    """One signal of one attempt; a subclass in `trackers/` is found by the registry.

    Trackers of an attempt are given batches in rising `order`: those that size others come first.
    Each is given all batches of a group before the next tracker is given the first, so what it
    reads of another tracker is of the end of the group. `grouping` ends a group where that matters.
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset()
    """Kinds of records it takes; it is not given a batch without any of them."""
    order: ClassVar[int] = 50
    of_all_nodes: ClassVar[bool] = False
    """Whether it is given rows of every node, not only of the one that speaks for their rank."""
    given_back: ClassVar[bool] = False
    """Whether a released attempt drops what it holds, and gives it no more rows."""

    @abstractmethod
    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Fold the rows of a batch in."""

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold batches in: what comes out is what `apply` makes of one after the other."""
        for batch in batches:
            if not self.kinds.isdisjoint(batch.tables):
                self.apply(batch, attempt)

    # Most trackers need no room for ranks.
    def resize(self, world: int) -> None:  # noqa: B027
        """Make room for `world` ranks; what is known stays."""

    @property
    def cells(self) -> int:
        """What it holds, for the bound on live state: a cell is about `CELL_BYTES`."""
        return 0

    def released(self) -> Self:
        """What is left of it once the attempt is released: itself, or an empty one."""
        return type(self)() if self.given_back else self


class JoinedTracker(Tracker):
    """A tracker of frequent records: it takes many batches as cheaply as one."""

    @abstractmethod
    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold batches in; how they are cut into calls makes no difference."""

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Fold the rows of a batch in."""
        self.fold(Batches([batch]), attempt)


class TrackedAttempt:
    """What a tracker sees of its attempt: identity, size, and the other trackers."""

    def __init__(self, number: int, totals: Totals, trackers: tuple[type[Tracker], ...]) -> None:
        self.number = number
        self.totals = totals
        """Those of the job; they keep what this attempt counted when it is gone."""
        self.world = 0
        self.job_class = ""
        self.refused_records = 0
        self.offsets: dict[str, int] = {}
        """Wall minus monotonic nanoseconds of each node, of at most `MAX_NODES`."""
        self.first_offsets: dict[str, int] = {}
        """The first that was received of each; a later one differs where somebody set the clock."""
        self.is_released = False
        self._trackers: dict[type[Tracker], Tracker] = {kind: kind() for kind in trackers}

    def tracker(self, wanted: type[T]) -> T:
        """The attempt's tracker of that type.

        Raises:
            KeyError: the registry holds none.
        """
        tracker = self._trackers[wanted]
        assert isinstance(tracker, wanted)
        return tracker

    def grow(self, world: int) -> None:
        """Make room for more ranks; a number that no job has is left out."""
        if not self.world < world <= MAX_WORLD:
            return
        self.world = world
        for tracker in self._trackers.values():
            tracker.resize(world)

    def release(self) -> None:
        """Give cells back; steps that still arrive are refused, the step history stays."""
        self._trackers = {kind: tracker.released() for kind, tracker in self._trackers.items()}
        self.is_released = True

    @property
    def cells(self) -> int:
        """Cells held, all of which `release` gives back."""
        return sum(tracker.cells for tracker in self._trackers.values())
