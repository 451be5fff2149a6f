"""Splits one read into segments within the reader's limits."""

from __future__ import annotations

import numpy as np

from stepwatch.agent.keys import Tables
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment, SegmentKey

Part = tuple[Tables, bytes]
"""One segment's tables and bytes."""


def encode_parts(key: SegmentKey, clock: ClockPair, tables: Tables) -> list[Part]:
    """Return one segment or, for large tables, as many as needed, numbered from `key`.

    A rank's rows and cursors stay together: each part has the cursors for the rings in it. An agent
    killed between two parts resumes where the parts on disk end.

    Raises:
        SegmentError: one rank's ring records, or one row, do not fit.
    """
    try:
        return [(tables, wire.encode(Segment(key, clock, tables)))]
    except SegmentError:
        halves = _halves(tables)
        if halves is None:
            raise
    first = encode_parts(key, clock, halves[0])
    behind = key._replace(sequence=key.sequence + len(first))
    return [*first, *encode_parts(behind, clock, halves[1])]


def _halves(tables: Tables) -> tuple[Tables, Tables] | None:
    """Split tables by rank; split one rank's by rows, except ring records.

    STEP for ranks 0, 0, 1, 2 and CURSOR for ranks 0, 1, 2 become STEP 0, 0 with CURSOR 0, and STEP
    1, 2 with CURSOR 1, 2.
    """
    ranks = np.unique(np.concatenate([rows["rank"] for rows in tables.values()]))
    if len(ranks) > 1:
        middle = ranks[len(ranks) // 2]
        lower = {kind: rows[rows["rank"] < middle] for kind, rows in tables.items()}
        upper = {kind: rows[rows["rank"] >= middle] for kind, rows in tables.items()}
    elif Kind.CURSOR in tables or max(map(len, tables.values())) < 2:
        return None
    else:
        lower = {kind: rows[: len(rows) // 2] for kind, rows in tables.items()}
        upper = {kind: rows[len(rows) // 2 :] for kind, rows in tables.items()}
    return _filled(lower), _filled(upper)


def _filled(tables: Tables) -> Tables:
    return {kind: rows for kind, rows in tables.items() if len(rows)}
