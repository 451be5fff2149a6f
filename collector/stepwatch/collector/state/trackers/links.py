"""Runs of experiment trackers that a job names: where its losses and its configuration are."""

from __future__ import annotations

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.records import Kind, LifecycleEvent, Link, read_link
from stepwatch.signals.records.links import MOST_PIECES

MOST_LINKS = 64


class Links(JoinedTracker):
    """LINK pieces of each rank, in the order in which they were written."""

    kinds = frozenset({Kind.LIFECYCLE})
    order = 13

    def __init__(self) -> None:
        self._texts: list[list[str]] = []
        self._open: dict[int, list[str]] = {}

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold LINK rows in; a piece that does not follow the one before it is left out."""
        rows = batches.table(Kind.LIFECYCLE).rows
        rows = chosen(rows, rows["event"] == LifecycleEvent.LINK)
        columns = (rows[name].tolist() for name in ("rank", "value", "text"))
        for rank, index, text in zip(*columns, strict=True):
            if index == 0:
                self._open.pop(rank, None)
                if len(self._texts) < MOST_LINKS:
                    self._open[rank] = []
                    self._texts.append(self._open[rank])
            texts = self._open.get(rank)
            if texts is not None and index == len(texts) < MOST_PIECES:
                texts.append(text.decode("utf-8", "replace"))

    def known(self) -> list[Link]:
        """Each link once, in the order in which they came."""
        return list(dict.fromkeys(map(read_link, self._texts)))

    @property
    def cells(self) -> int:
        """What it holds, for the bound on live state."""
        return sum(map(len, self._texts))
