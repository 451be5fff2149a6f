"""Paths that ranks loaded before their first step."""

from __future__ import annotations

from stepwatch.collector.state.folding.pieces import PieceTracker
from stepwatch.signals.records import LifecycleEvent, read_path


class LoadedPaths(PieceTracker):
    """LOADED_PATH pieces from each rank."""

    order = 20
    event = LifecycleEvent.LOADED_PATH
    most = 64

    def paths(self) -> list[str]:
        """Return the paths, the newest first, each once."""
        return [*dict.fromkeys(filter(None, map(read_path, self._texts[::-1])))]
