"""Runs of experiment trackers that a job names: where its losses and its configuration are."""

from __future__ import annotations

from stepwatch.collector.state.folding.pieces import PieceTracker
from stepwatch.signals.records import LifecycleEvent, Link, read_link


class Links(PieceTracker):
    """LINK pieces of each rank."""

    order = 13
    event = LifecycleEvent.LINK
    most = 64

    def known(self) -> list[Link]:
        """Each link once, in the order in which they came."""
        return list(dict.fromkeys(map(read_link, self._texts)))
