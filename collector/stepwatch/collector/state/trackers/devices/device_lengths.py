"""Each step's time on its slowest device, for the steps in the attempt's history."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.folding.rows import accumulate, chosen, put
from stepwatch.collector.state.trackers.steps.step_history import (
    BASELINE_STEPS,
    LEAST_BASELINE_STEPS,
    MAX_STEPS,
    PARTS,
    SPENT,
    WARMUP_STEPS,
)
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.wire import Rows

LENGTH = np.dtype(
    [
        ("ranks", "<u4"),
        ("longest", "<f4"),
        ("busy", "<f8"),
        ("end_wall_ns", "<u8"),
        *((name, "<f4") for name in PARTS),
    ]
)
"""Step times on devices.

`ranks` is the number of devices that timed the step. `longest` and `busy` are the slowest device's
and all devices' seconds, both without checkpoint and evaluation. `end_wall_ns` is the wall time of
the last device's end. `PARTS` are as in the host history, NaN if a device did not split the step.
"""


class DeviceLengths:
    """Device times for at most `MAX_STEPS` steps from the attempt's first one; some were dropped.

    `any` is whether a device timed a step, `late_rows` the number of rows for dropped steps.
    """

    def __init__(self) -> None:
        self.any = False
        self.late_rows = 0
        self._first = 0
        self._used = 0
        self._dropped = 0
        self._longest_dropped = math.nan
        self._beginning: Rows = _blank(0)
        self._rows: Rows = _blank(0)

    def add(self, fresh: Fresh, first: int | None) -> None:
        """Add DEVICE_STEP rows, each (rank, step) once.

        `first` is the attempt's first step, None until a host reports one: then it is the first
        step that a device timed. Sums are added row by row (`np.add.at`), so the split into calls
        makes no difference.
        """
        if first is None:
            first = int(fresh.steps.min())
            first = min(first, self._first) if self._used else first
        self._begin_at(first)
        index = fresh.steps - first - self._dropped
        self.late_rows += int((index < 0).sum()) if self._dropped else 0
        inside = (index >= 0) & (index < MAX_STEPS)
        rows, index, ends = chosen(fresh.rows, inside), index[inside], fresh.ends_ns[inside]
        self._make_room(int(index.max(initial=-1)) + 1)
        pauses = np.nan_to_num(rows["checkpoint_seconds"]) + np.nan_to_num(rows["eval_seconds"])
        seconds = rows["duration_seconds"] - pauses
        seconds = np.maximum(seconds, 0.0)
        touched, places = np.unique(index, return_inverse=True)
        part = chosen(self._rows, touched)
        accumulate(np.add, part, "ranks", places, np.ones(len(places)))
        accumulate(np.maximum, part, "longest", places, seconds)
        accumulate(np.add, part, "busy", places, seconds)
        accumulate(np.maximum, part, "end_wall_ns", places, np.maximum(ends, 0))
        for name in SPENT:
            accumulate(np.add, part, name, places, rows[f"{name}_seconds"])
        accumulate(np.minimum, part, "least_collective", places, rows["collective_seconds"])
        put(self._rows, touched, part)

    def baseline(self, world: int) -> float:
        """Return the first steps' median seconds after the warm-up; NaN until enough are known."""
        begin = self._first + WARMUP_STEPS
        seconds = self.seconds(np.arange(begin, begin + BASELINE_STEPS), world)
        finite = seconds[~np.isnan(seconds)]
        return float(np.median(finite)) if len(finite) >= LEAST_BASELINE_STEPS else float("nan")

    def longest(self) -> float:
        """Return the longest step on any device in seconds; NaN before the first."""
        return float(np.fmax(self._longest_dropped, _longest(self._rows)))

    def rows(self, steps: Integers) -> Rows:
        """Return `LENGTH` rows for these steps (steps,); all 0 if untimed or dropped."""
        lengths = np.zeros(len(steps), dtype=LENGTH)
        for first, rows in ((self._first, self._beginning), (self._held_from, self._rows)):
            index = steps - first
            inside = (index >= 0) & (index < len(rows))
            lengths[inside] = rows[index[inside]]
        return lengths

    def drop(self, count: int, first: int) -> None:
        """Drop the first `count` steps in memory, except the `_beginning`.

        `first` is the attempt's first step.
        """
        if not self._dropped:
            self._begin_at(first)
            self._beginning = self._rows[: WARMUP_STEPS + BASELINE_STEPS].copy()
        self._longest_dropped = float(np.fmax(self._longest_dropped, _longest(self._rows[:count])))
        self._dropped += count
        self._rows, self._used = self._rows[count:].copy(), max(0, self._used - count)

    @property
    def _held_from(self) -> int:
        return self._first + self._dropped

    def _begin_at(self, first: int) -> None:
        """Move the rows so that they begin with the step `first`; earlier steps are discarded.

        Begun with step 5, steps 5 and 6 known: from 4 on they are rows 1 and 2, from 6 on one is 0.
        """
        if self._used and first != self._first:
            later = min(max(self._first - first, 0), MAX_STEPS)
            retained = self._rows[max(first - self._first, 0) : self._used][: MAX_STEPS - later]
            self._used = later + len(retained) if len(retained) else 0
            self._rows = _blank(_length(self._used))
            self._rows[later : later + len(retained)] = retained
        self._first = first

    def _make_room(self, used: int) -> None:
        self.any = self.any or used > 0
        self._used = max(self._used, used)
        if used > len(self._rows):
            grown = _blank(_length(used))
            grown[: len(self._rows)] = self._rows
            self._rows = grown

    def seconds(self, steps: Integers, world: int) -> Vector:
        """Return the seconds for each of `steps`; NaN if fewer than `world` devices timed it."""
        rows = self.rows(steps)
        timed = (rows["ranks"] > 0) & (rows["ranks"] >= world)
        return np.where(timed, rows["longest"].astype(np.float64), np.nan)


def _blank(count: int) -> Rows:
    rows: Rows = np.zeros(count, dtype=LENGTH)
    rows["least_collective"] = np.inf
    return rows


def _length(used: int) -> int:
    """Return a power of two: the size is the same whether rows grow at once or in small steps."""
    return min(MAX_STEPS, max(1024, 1 << (used - 1).bit_length())) if used else 0


def _longest(rows: Rows) -> float:
    timed = rows["longest"][rows["ranks"] > 0]
    return float(timed.max()) if len(timed) else math.nan
