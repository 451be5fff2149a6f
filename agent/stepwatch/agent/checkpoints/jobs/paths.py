"""Paths that ranks report, from the pieces in their LIFECYCLE records."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.signals.records import Kind, LifecycleEvent, read_path
from stepwatch.signals.records.pieces import MOST_PIECES

MOST_OPEN = 4096
"""Ranks whose path is incomplete; the oldest is forgotten first."""


class ReportedPath(NamedTuple):
    """The files of a finished save: the reporting rank, the checkpoint's step, the path."""

    rank: int
    step: int
    path: str


class PathPieces:
    """Joins pieces, also over several reads of a ring."""

    def __init__(self) -> None:
        self._open: dict[tuple[AttemptKey, int], list[str]] = {}

    def paths(self, key: AttemptKey, tables: Tables) -> list[ReportedPath]:
        """Return the paths that LIFECYCLE rows complete; a piece out of sequence is ignored."""
        paths: list[ReportedPath] = []
        rows = tables.get(Kind.LIFECYCLE)
        if rows is None:
            return paths
        rows = rows[rows["event"] == LifecycleEvent.CHECKPOINT_PATH]
        for row in rows:
            place, index = (key, int(row["rank"])), int(row["value"])
            if index == 0:
                self._open.pop(place, None)
                self._open[place] = []
                if len(self._open) > MOST_OPEN:
                    del self._open[next(iter(self._open))]
            texts = self._open.get(place)
            if texts is None or index != len(texts) or index >= MOST_PIECES:
                continue
            texts.append(bytes(row["text"]).decode("utf-8", "replace"))
            path = read_path(texts)
            if path:
                del self._open[place]
            if path.startswith("/") and path.isprintable():
                paths.append(ReportedPath(int(row["rank"]), int(row["step"]), path))
        return paths
