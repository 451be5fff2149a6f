"""Texts that ranks write in pieces: put together again."""

from __future__ import annotations

from typing import ClassVar

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.records.pieces import MOST_PIECES


class PieceTracker(JoinedTracker):
    """Pieces of one `event` of each rank, in the order in which they were written; at most `most`
    texts."""

    kinds = frozenset({Kind.LIFECYCLE})
    event: ClassVar[LifecycleEvent]
    most: ClassVar[int]

    def __init__(self) -> None:
        self._texts: list[list[str]] = []
        self._open: dict[int, list[str]] = {}

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold pieces in; one that does not follow the one before it is left out."""
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
        """What it holds, for the bound on live state."""
        return sum(map(len, self._texts))
