"""GAP rows for the records in a damaged or missing segment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stepwatch.agent.keys import Cursors, cursors_of
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind
from stepwatch.signals.wire import Rows

from .files import Spooled

LOST_TEXT = b"a spooled segment was damaged"


def gap_rows(lost: Spooled, segments: Iterable[Spooled], acknowledged: Cursors) -> Rows:
    """Return one row per ring that `lost` had read, or one without a rank if unknown.

    Ring A was acknowledged up to 5, a segment before `lost` read it up to 9, `lost` up to 14: the
    row names records 9 to 13.
    """
    begun = dict(acknowledged)
    for segment in segments:
        if segment.sequence < lost.sequence:
            for ring, next_seq in cursors_of(segment.cursors).items():
                begun[ring] = max(next_seq, begun.get(ring, 1))
    if lost.cursors is None:
        return _gap(UNKNOWN_RANK, 0, 0)
    parts = [np.zeros(0, dtype=DTYPES[Kind.GAP])]
    for row in lost.cursors:
        first, last = begun.get(int(row["ring_id"]), 1), int(row["next_seq"]) - 1
        if first <= last:
            parts.append(_gap(int(row["rank"]), first, last))
    return np.concatenate(parts)


def _gap(rank: int, first: int, last: int) -> Rows:
    rows = np.zeros(1, dtype=DTYPES[Kind.GAP])
    rows["rank"], rows["seq"] = rank, first
    rows["first_seq"], rows["last_seq"] = first, last
    rows["text"] = LOST_TEXT
    return rows
