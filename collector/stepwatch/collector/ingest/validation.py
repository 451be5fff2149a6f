"""Which rows can be true: what no trainer and no clock could have made is refused, not counted."""

from __future__ import annotations

import numpy as np

from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import MAX_DURATION_NS
from stepwatch.signals.records import OP_NAMES
from stepwatch.signals.wire import Rows

MAX_STEP_BYTES = 1 << 60
"""No rank passes an exabyte to its collectives in one step, or to a checkpoint."""
UNKNOWN = (1 << 64) - 1
"""Stands for an unsigned number that is not known."""
_WALL_END_NS = 1 << 63

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def steps(rows: Rows, world: int, to_wall_ns: int | Integers) -> Mask:
    """Rows of STEP whose rank exists, whose durations are possible and whose end is a wall time.

    `to_wall_ns` turns the rows' monotonic time into wall time, the same for all rows or one each.
    """
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world)
    for name in rows.dtype.names or ():
        if name.endswith("_ns") and name != "time_ns":
            possible &= rows[name] <= MAX_DURATION_NS
    offset = np.asarray(to_wall_ns, dtype=np.int64)
    # Both are unsigned as the times are: numpy compares signed with unsigned as floats, inexactly.
    earliest = np.maximum(-offset, 0).astype(np.uint64)
    latest = (_WALL_END_NS - 1 - np.maximum(offset, 0)).astype(np.uint64)
    return possible & (rows["time_ns"] >= earliest) & (rows["time_ns"] <= latest)


def lost_records(gaps: Rows) -> int:
    """Records that GAP rows stand for; a gap that ends before it begins stands for none."""
    ordered = gaps[gaps["last_seq"] >= gaps["first_seq"]]
    return sum(int(row["last_seq"]) - int(row["first_seq"]) + 1 for row in ordered)


def collectives(rows: Rows, world: int) -> Mask:
    """Rows of COLLECTIVE whose rank and operation exist and whose times and sizes are possible."""
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world) & (rows["op"] < len(OP_NAMES))
    return possible & (rows["exposed_ns"] <= MAX_DURATION_NS) & (rows["bytes"] <= MAX_STEP_BYTES)


def checkpoints(rows: Rows, began_ns: int) -> Rows:
    """CHECKPOINT rows in which times and sizes that cannot be true are `UNKNOWN`.

    No save lasts longer than its rank runs: since `began_ns`, monotonic on its node, 0 if unknown.
    """
    reported = rows.copy()
    age = rows["time_ns"] - np.minimum(np.uint64(began_ns), rows["time_ns"])
    for name in ("stall_ns", "durable_ns"):
        reported[name][rows[name] > np.minimum(age, np.uint64(MAX_DURATION_NS))] = UNKNOWN
    reported["bytes"][rows["bytes"] > MAX_STEP_BYTES] = UNKNOWN
    return reported


def microbatches(rows: Rows, world: int) -> Mask:
    """Rows of MICROBATCH whose rank exists and whose times are signed 64-bit numbers."""
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world)
    for name in ("time_ns", "began_ns", "blocked_ns"):
        possible &= rows[name] < _WALL_END_NS
    return possible
