"""Cuts what was read at once into segments, each within what a reader accepts."""

from __future__ import annotations

import numpy as np

from stepwatch.agent.keys import Tables
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment, SegmentKey

Part = tuple[Tables, bytes]
"""The tables of one segment, and its bytes."""


def encode_parts(key: SegmentKey, clock: ClockPair, tables: Tables) -> list[Part]:
    """One segment; of tables that are too large for one as many as it takes, numbered from `key`.

    Rows of a rank stay together, with its cursors: each part says how far it read the rings that it
    holds rows of. An agent that is killed between two parts reads on where the parts on disk end.

    Raises:
        SegmentError: what is read from the rings of one rank, or one row, does not fit.
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
    """Tables in two by rank; those of one rank by rows, but not where they read its ring.

    STEP of ranks 0, 0, 1, 2 and CURSOR of ranks 0, 1, 2 become STEP 0, 0 with CURSOR 0, and STEP
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
