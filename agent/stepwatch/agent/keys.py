"""Names that the rooms of the agent share: the key of an attempt, and how far a ring was read."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows


class AttemptKey(NamedTuple):
    """One attempt of one job."""

    job: str
    attempt: int


Tables = dict[Kind, Rows]
"""Rows of one segment, by kind."""

Cursors = dict[int, int]
"""Next record to read, by ring id."""


def cursors_of(rows: Rows | None) -> Cursors:
    """The cursors in CURSOR rows; a segment without new records has none."""
    if rows is None:
        return {}
    return {int(row["ring_id"]): int(row["next_seq"]) for row in rows}


def advance(cursors: Cursors, rows: Rows | None) -> None:
    """Move `cursors` on to the cursors in CURSOR rows; the newest are last in it.

    A segment that was held comes after newer ones: it leads no cursor back, or what those held
    would be read, and sent, again.
    """
    for ring_id, next_seq in cursors_of(rows).items():
        cursors[ring_id] = max(next_seq, cursors.pop(ring_id, 0))
