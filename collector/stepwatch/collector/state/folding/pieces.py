"""Texts that ranks send in pieces, joined again."""

from __future__ import annotations

from typing import ClassVar

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.records.pieces import MOST_PIECES


class PieceTracker(JoinedTracker):
    """Pieces from each rank's `event` records, in writing order; at most `most` texts."""

    kinds = frozenset({Kind.LIFECYCLE})
    event: ClassVar[LifecycleEvent]
    most: ClassVar[int]

    def __init__(self) -> None:
        self._texts: list[list[str]] = []
        self._open: dict[int, list[str]] = {}

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in pieces; a piece out of sequence is ignored."""
        rows = batches.table(Kind.LIFECYCLE).rows
        rows = chosen(rows, rows["event"] == self.event)
        columns = (rows[name].tolist() for name in ("rank", "value", "text"))
        for rank, index, text in zip(*columns, strict=True):
            if index == 0:
                self._open.pop(rank, None)
                if len(self._texts) < self.most:
                    self._open[rank] = []
                    self._texts.append(self._open[rank])
            texts = self._open.get(rank)
            if texts is not None and index == len(texts) < MOST_PIECES:
                texts.append(text.decode("utf-8", "replace"))

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return sum(map(len, self._texts))
