"""Types that the agent's modules share: the attempt key and ring cursors."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows


class AttemptKey(NamedTuple):
    """One attempt at a job."""

    job: str
    attempt: int


Tables = dict[Kind, Rows]
"""A segment's rows, by kind."""

Cursors = dict[int, int]
"""Next record to read, by ring id."""


def cursors_of(rows: Rows | None) -> Cursors:
    """Return the cursors in CURSOR rows; a segment without new records has none."""
    if rows is None:
        return {}
    return {int(row["ring_id"]): int(row["next_seq"]) for row in rows}


def advance(cursors: Cursors, rows: Rows | None) -> None:
    """Advance `cursors` to those in CURSOR rows; the newest move to the end.

    A held segment arrives after newer ones and must not move a cursor back: its records would be
    read and sent again.
    """
    for ring_id, next_seq in cursors_of(rows).items():
        cursors[ring_id] = max(next_seq, cursors.pop(ring_id, 0))
