"""Shrinks a segment: drops expendable rows and adds a gap record."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from stepwatch.signals import wire
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Rows

IN_RINGS = frozenset({Kind.STEP, Kind.COLLECTIVE, Kind.MICROBATCH, Kind.METRIC})
"""Expendable kinds from rings: dropped rows leave a gap; an evaluation's METRIC rows stay."""


def downsample(data: bytes, expendable: Collection[Kind]) -> bytes:
    """Return the segment without rows in `IN_RINGS` and the `expendable` kinds.

    Raises:
        SegmentError: the segment is damaged.
        UnsupportedFormatError: its format is too new to know what may be dropped.
    """
    segment = wire.decode(data)
    dropped = IN_RINGS.union(expendable)
    tables = {kind: rows for kind, rows in segment.tables.items() if kind not in dropped}
    lost_rows = {kind: segment.tables[kind] for kind in IN_RINGS & segment.tables.keys()}
    if (metrics := lost_rows.get(Kind.METRIC)) is not None:
        evaluations = metrics[metrics["evaluated"] > 0]
        tables |= {Kind.METRIC: evaluations} if len(evaluations) else {}
        lost_rows[Kind.METRIC] = metrics[metrics["evaluated"] == 0]
    lost = [lost_rows[kind] for kind in sorted(lost_rows)]
    gaps = [_gap(rows[rows["rank"] == rank]) for rows in lost for rank in set(rows["rank"])]
    if gaps:
        tables[Kind.GAP] = np.concatenate([tables.get(Kind.GAP, gaps[0][:0]), *gaps])
    return wire.encode(segment._replace(tables=tables))


def _gap(rows: Rows) -> Rows:
    gap = np.zeros(1, dtype=DTYPES[Kind.GAP])
    gap["rank"], gap["seq"] = rows["rank"][0], rows["seq"].min()
    gap["first_seq"], gap["last_seq"] = rows["seq"].min(), rows["seq"].max()
    gap["text"] = b"dropped: the spool was full"
    return gap
