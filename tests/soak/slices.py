"""SLI slices by brute force: every STEP record of the log, summed by the SLIs' definitions.

It shares no code with the collector, and reads all records at once, after the run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Rows

from .log import StoredLog

SECONDS = 10
GOODPUT, STEP_TIME = "goodput", "step-time"
_SLOW = 2.0
"""A step that takes this multiple of the baseline is slow."""
_STALL, _STALL_SECONDS = 8.0, 5.0
"""A step above this multiple of the baseline, and above it by these seconds, stalls beyond it."""
_BASELINE = slice(3, 23)
"""Steps whose median is the baseline: twenty after a warm-up of three."""
SLICE = np.dtype(
    [("start_s", "<i8"), ("good", "<f8"), ("total", "<f8"), ("observed", "<i8"),
     ("expected", "<i8"), ("cumulative_good", "<f8"), ("cumulative_total", "<f8")]
)  # fmt: skip


class Steps(NamedTuple):
    """Arrays (steps,) of one attempt: the last rank's end in Unix nanoseconds, the ranks' device-
    seconds, the slowest rank's seconds, the number of reporting ranks."""

    end_ns: np.ndarray[tuple[int], np.dtype[np.int64]]
    busy: np.ndarray[tuple[int], np.dtype[np.float64]]
    longest: np.ndarray[tuple[int], np.dtype[np.float64]]
    observed: np.ndarray[tuple[int], np.dtype[np.int64]]


def steps_of(records: Rows) -> Steps:
    """The steps that records are about, from 0 on; each must have been reported by some rank."""
    step_numbers, count = records["step"], int(records["step"].max()) + 1
    seconds = np.maximum(records["seconds"] - records["pauses"], 0.0)
    ends, longest = np.zeros(count, dtype=np.int64), np.zeros(count)
    np.maximum.at(ends, step_numbers, records["end_ns"])
    np.maximum.at(longest, step_numbers, seconds)
    busy = np.asarray(np.bincount(step_numbers, weights=seconds, minlength=count), dtype=np.float64)
    return Steps(ends, busy, longest, np.bincount(step_numbers, minlength=count))


def brute_force(log: StoredLog, ranks: int) -> dict[str, Rows]:
    """The slices of each SLI, rows of `SLICE` in the order of time."""
    steps = steps_of(log.steps)
    # Whole nanoseconds: as a float, a moment is rounded to 2.4e-7 s, 1.5e-5 s of 64 ranks.
    began = np.concatenate([[log.began_ns], steps.end_ns[:-1]])
    allocated = np.maximum(steps.end_ns - began, 0) / 1e9 * ranks
    baseline = np.median(steps.longest[_BASELINE])
    timely = np.where(steps.longest > _SLOW * baseline, 0.0, steps.busy)
    stalls = steps.longest > np.maximum(_STALL * baseline, baseline + _STALL_SECONDS)
    moved = np.where(stalls, steps.busy * (baseline / steps.longest), steps.busy)
    return {
        GOODPUT: _slice_rows(steps, np.minimum(moved, allocated), allocated, ranks),
        STEP_TIME: _slice_rows(steps, timely, steps.busy, ranks),
    }


def _slice_rows(
    steps: Steps,
    good: np.ndarray[tuple[int], np.dtype[np.float64]],
    total: np.ndarray[tuple[int], np.dtype[np.float64]],
    ranks: int,
) -> Rows:
    starts, where = np.unique(steps.end_ns // (SECONDS * 10**9), return_inverse=True)
    slices = np.zeros(len(starts), dtype=SLICE)
    slices["start_s"] = starts * SECONDS
    slices["good"] = np.bincount(where, weights=good)
    slices["total"] = np.bincount(where, weights=total)
    slices["observed"] = np.bincount(where, weights=steps.observed)
    slices["expected"] = np.bincount(where) * ranks
    slices["cumulative_good"] = np.cumsum(slices["good"])
    slices["cumulative_total"] = np.cumsum(slices["total"])
    return slices
