"""Validation of rows: values that no trainer and no clock can produce are refused."""

from __future__ import annotations

import numpy as np

from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import MAX_DURATION_NS
from stepwatch.signals.records import OP_NAMES
from stepwatch.signals.wire import Rows

MAX_STEP_BYTES = 1 << 60
"""No rank passes an exabyte to its collectives in one step, or to a checkpoint."""
UNKNOWN = (1 << 64) - 1
"""Marker for an unknown unsigned number."""
_WALL_END_NS = 1 << 63

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def steps(rows: Rows, world: int, to_wall_ns: int | Integers) -> Mask:
    """Return the STEP rows with an existing rank, possible durations, and an end in wall time.

    `to_wall_ns` converts monotonic to wall time: one value, or one per row.
    """
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world)
    for name in rows.dtype.names or ():
        if name.endswith("_ns") and name != "time_ns":
            possible &= rows[name] <= MAX_DURATION_NS
    offset = np.asarray(to_wall_ns, dtype=np.int64)
    # Both are unsigned like the times: numpy compares signed with unsigned as inexact floats.
    earliest = np.maximum(-offset, 0).astype(np.uint64)
    latest = (_WALL_END_NS - 1 - np.maximum(offset, 0)).astype(np.uint64)
    return possible & (rows["time_ns"] >= earliest) & (rows["time_ns"] <= latest)


def lost_records(gaps: Rows) -> int:
    """Return the number of records lost according to GAP rows; an inverted gap counts as none."""
    ordered = gaps[gaps["last_seq"] >= gaps["first_seq"]]
    return sum(int(row["last_seq"]) - int(row["first_seq"]) + 1 for row in ordered)


def collectives(rows: Rows, world: int) -> Mask:
    """Return the COLLECTIVE rows with an existing rank, a known operation, and possible values."""
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world) & (rows["op"] < len(OP_NAMES))
    return possible & (rows["exposed_ns"] <= MAX_DURATION_NS) & (rows["bytes"] <= MAX_STEP_BYTES)


def checkpoints(rows: Rows, began_ns: int) -> Rows:
    """Return CHECKPOINT rows with impossible times and sizes set to `UNKNOWN`.

    No save takes longer than its rank's run: since `began_ns`, monotonic on its node, 0 if unknown.
    """
    reported = rows.copy()
    age = rows["time_ns"] - np.minimum(np.uint64(began_ns), rows["time_ns"])
    for name in ("stall_ns", "durable_ns"):
        reported[name][rows[name] > np.minimum(age, np.uint64(MAX_DURATION_NS))] = UNKNOWN
    reported["bytes"][rows["bytes"] > MAX_STEP_BYTES] = UNKNOWN
    return reported


def microbatches(rows: Rows, world: int) -> Mask:
    """Return the MICROBATCH rows with an existing rank and signed 64-bit times."""
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world)
    for name in ("time_ns", "began_ns", "blocked_ns"):
        possible &= rows[name] < _WALL_END_NS
    return possible
