"""The last stderr lines of ended ranks: each rank's newest report."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.records import Kind

MAX_RANKS = 4096
"""Maximum number of ranks with lines: in a larger failure the later ranks are symptoms."""
MAX_LINES = 8
_CELLS_A_LINE = 6


class LastWords(NamedTuple):
    """A rank's last lines, oldest first; without any, `reason` tells why."""

    lines: tuple[str, ...] = ()
    reason: str = ""


class LastLines(Tracker):
    """LAST_LINE rows from each ended rank."""

    kinds = frozenset({Kind.LAST_LINE})

    def __init__(self) -> None:
        self.by_rank: dict[int, LastWords] = {}

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply a batch's rows: a rank's new report replaces its old one."""
        rows = batch.rows(Kind.LAST_LINE)
        if rows is None:
            return
        reports: dict[int, LastWords] = {}
        for row in rows[: MAX_RANKS * MAX_LINES]:
            rank = int(row["rank"])
            if 0 <= rank < attempt.world and (
                rank in self.by_rank or len(self.by_rank) < MAX_RANKS
            ):
                reports[rank] = self.by_rank[rank] = _with(reports.get(rank, LastWords()), row)

    @property
    def cells(self) -> int:
        """Cell count."""
        return _CELLS_A_LINE * sum(1 + len(words.lines) for words in self.by_rank.values())


def _with(words: LastWords, row: np.void) -> LastWords:
    # An agent may send any text.
    shown = plain_line(bytes(row["text"]).decode("utf-8", "replace"))
    if int(row["kept"]) != 1:
        return words._replace(reason=shown)
    return words._replace(lines=(*words.lines, shown)[-MAX_LINES:])
