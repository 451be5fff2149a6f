"""Experiment-tracker runs that a job names: links to its losses and its configuration."""

from __future__ import annotations

from stepwatch.collector.state.folding.pieces import PieceTracker
from stepwatch.signals.records import LifecycleEvent, Link, read_link


class Links(PieceTracker):
    """LINK pieces from each rank."""

    order = 13
    event = LifecycleEvent.LINK
    most = 64

    def links(self) -> list[Link]:
        """Return each link once, in arrival order."""
        return list(dict.fromkeys(map(read_link, self._texts)))
