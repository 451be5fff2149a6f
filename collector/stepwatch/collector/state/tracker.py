"""The common interface of an attempt's trackers, and their input batches.

A tracker follows one signal of an attempt. It names its kinds of records, applies their rows,
reports its number of cells, and releases them with the attempt.
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
    """One signal in one attempt; the registry finds subclasses in `trackers/`.

    Trackers receive batches in rising `order`: trackers that size other trackers come first. Each
    receives all batches in a group before the next tracker starts, so it sees another tracker's
    state at the end of the group. `grouping` ends a group where that matters.
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset()
    """Kinds of records it takes; batches without any of them are skipped."""
    order: ClassVar[int] = 50
    of_all_nodes: ClassVar[bool] = False
    """Whether it receives rows from every node, not only from each rank's owner."""
    given_back: ClassVar[bool] = False
    """Whether a released attempt drops its state and sends it no more rows."""

    @abstractmethod
    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Fold in one batch's rows."""

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in batches, with the same result as one `apply` call per batch."""
        for batch in batches:
            if not self.kinds.isdisjoint(batch.tables):
                self.apply(batch, attempt)

    # Most trackers need no room for ranks.
    def resize(self, world: int) -> None:  # noqa: B027
        """Make room for `world` ranks; existing values stay."""

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit; a cell is about `CELL_BYTES`."""
        return 0

    def released(self) -> Self:
        """Return the tracker after the attempt's release: itself, or an empty one."""
        return type(self)() if self.given_back else self


class JoinedTracker(Tracker):
    """A tracker for frequent records: many batches cost as little as one."""

    @abstractmethod
    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in batches; the split into calls makes no difference."""

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Fold in one batch's rows."""
        self.fold(Batches([batch]), attempt)


class TrackedAttempt:
    """A tracker's view of its attempt: identity, size, and the other trackers."""

    def __init__(self, number: int, totals: Totals, trackers: tuple[type[Tracker], ...]) -> None:
        self.number = number
        self.totals = totals
        """The job's totals; they outlive this attempt."""
        self.world = 0
        self.job_class = ""
        self.refused_records = 0
        self.received_s = 0.0
        """Receive time of the newest batch, Unix seconds."""
        self.received_monotonic_s = 0.0
        self.offsets: dict[str, int] = {}
        """Wall minus monotonic nanoseconds by node, for at most `MAX_NODES`."""
        self.first_offsets: dict[str, int] = {}
        """First received offset by node; a later one differs if a clock was set."""
        self.is_released = False
        self._trackers: dict[type[Tracker], Tracker] = {kind: kind() for kind in trackers}

    def tracker(self, wanted: type[T]) -> T:
        """Return the attempt's tracker with that type.

        Raises:
            KeyError: the registry holds none.
        """
        tracker = self._trackers[wanted]
        assert isinstance(tracker, wanted)
        return tracker

    def grow(self, world: int) -> None:
        """Make room for more ranks; an impossible number is ignored."""
        if not self.world < world <= MAX_WORLD:
            return
        self.world = world
        for tracker in self._trackers.values():
            tracker.resize(world)

    def release(self) -> None:
        """Release the cells; later steps are refused, the step history stays."""
        self._trackers = {kind: tracker.released() for kind, tracker in self._trackers.items()}
        self.is_released = True

    @property
    def cells(self) -> int:
        """Number of cells, all released by `release`."""
        return sum(tracker.cells for tracker in self._trackers.values())
