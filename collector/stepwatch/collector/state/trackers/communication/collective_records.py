"""The newest COLLECTIVE rows of one attempt, and its process groups by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.newest_rows import NewestRows
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Rows

MAX_ROWS = 1 << 20
"""Maximum rows per attempt, 30 bytes each: about 170 steps of 1,024 ranks with six rows each."""
MAX_GROUPS = 1 << 16
_TEXT_BYTES = DTYPES[Kind.GROUP]["text"].itemsize

CALL = np.dtype(
    [
        ("step", "<u4"),
        ("rank", "<i4"),
        ("group", "<u4"),
        ("op", "<u2"),
        ("count", "<u4"),
        ("bytes", "<f8"),
        ("exposed", "<f4"),
    ]
)
"""One rank's calls of one operation in one group within one step; `exposed` in seconds."""


class Group(NamedTuple):
    """A process group: its size (0: contradictory reports), its ranks, and its name."""

    size: int
    ranks: str
    name: str = ""


def group_texts(groups: Mapping[int, Group]) -> dict[int, str]:
    """Return each group's ranks by number, with its name if another group has the same ranks.

    Groups 0-3 without a name and 0-3 with name 1: `0-3` and `0-3 (name 1)`.
    """
    alike = Counter(group.ranks for group in groups.values())
    return {
        number: f"{group.ranks} (name {group.name})"
        if group.name and alike[group.ranks] > 1
        else group.ranks
        for number, group in groups.items()
    }


class CollectiveRecords(JoinedTracker):
    """Keeps the newest rows; older ones are overwritten."""

    kinds = frozenset({Kind.COLLECTIVE, Kind.GROUP})
    order = 20
    given_back = True

    def __init__(self) -> None:
        self.groups: dict[int, Group] = {}
        self._rows = NewestRows(CALL, MAX_ROWS)

    @property
    def arrived(self) -> int:
        """Number of COLLECTIVE rows ever received."""
        return self._rows.arrived

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return len(self._rows) + len(self.groups)

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in GROUP and COLLECTIVE rows; the order matters for contradictory groups."""
        if Kind.GROUP in batches.kinds:
            for batch in batches:
                if (groups := batch.rows(Kind.GROUP)) is not None:
                    self.add_groups(groups)
        if (rows := batches.rows(Kind.COLLECTIVE)) is not None:
            attempt.refused_records += self.add(rows, attempt.world)

    def add(self, rows: Rows, world: int) -> int:
        """Add COLLECTIVE rows; returns the number of refused invalid rows."""
        usable = chosen(rows, validation.collectives(rows, world))
        columns = {name: usable[name] for name in ("step", "rank", "group", "op", "count", "bytes")}
        self._rows.add({**columns, "exposed": usable["exposed_ns"] / NANOSECONDS})
        return len(rows) - len(usable)

    def add_groups(self, rows: Rows) -> None:
        """Add GROUP rows; a number with two claimed sizes is not a valid group."""
        claims = rows["group"].astype(np.uint64) << np.uint64(32) | rows["size"]
        _, firsts = np.unique(claims, return_index=True)
        for row in rows[firsts]:
            number, size = int(row["group"]), int(row["size"])
            group = self.groups.get(number)
            if group is None and len(self.groups) < MAX_GROUPS:
                self.groups[number] = Group(
                    size, _ranks(bytes(row["text"])), bytes(row["name"]).decode("utf-8", "replace")
                )
            elif group is not None and group.size != size:
                self.groups[number] = group._replace(size=0)

    def of_steps(self, first: int, last: int) -> Rows:
        """Return the rows for steps `first` to `last`, in arrival order."""
        return self._rows.of_steps(first, last)


def _ranks(text: bytes) -> str:
    """Return the text in a GROUP row; a full field was cut, perhaps within a number."""
    reported = text.decode("utf-8", "replace")
    return reported if len(text) < _TEXT_BYTES else reported.rpartition(",")[0] + ",..."
