"""How long each step of an attempt took on its slowest device, for the attempt's whole life."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.trackers.step_history import (
    BASELINE_STEPS,
    LEAST_BASELINE_STEPS,
    MAX_STEPS,
    WARMUP_STEPS,
)
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.wire import Rows

LENGTH = np.dtype([("ranks", "<u4"), ("longest", "<f4"), ("busy", "<f8"), ("end_wall_ns", "<u8")])
"""Devices that timed a step, the seconds of the slowest and of all together, both without
checkpoint and evaluation, and the wall time at which the last one ended it."""


class DeviceLengths:
    """Lengths of the steps from the attempt's first one on, at most `MAX_STEPS`."""

    def __init__(self) -> None:
        self._first = 0
        self._rows: Rows = np.zeros(0, dtype=LENGTH)

    def add(self, fresh: Fresh, first: int) -> None:
        """Take DEVICE_STEP rows, each (rank, step) once; `first` is the attempt's first step.

        Sums are taken row after row (`np.add.at`), so they do not depend on which rows come in one
        call.
        """
        if len(self._rows) and first < self._first:
            earlier = np.zeros(min(self._first - first, MAX_STEPS), dtype=LENGTH)
            self._rows = np.concatenate([earlier, self._rows])[:MAX_STEPS]
        self._first = first
        index = fresh.steps - first
        inside = (index >= 0) & (index < MAX_STEPS)
        rows, index, ends = fresh.rows[inside], index[inside], fresh.ends_ns[inside]
        used = int(index.max(initial=-1)) + 1
        if used > len(self._rows):
            # A power of two: the same length whether it grows at once or little by little.
            length = min(MAX_STEPS, max(1024, 1 << (used - 1).bit_length()))
            grown = np.zeros(length, dtype=LENGTH)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        pauses = np.nan_to_num(rows["checkpoint_seconds"]) + np.nan_to_num(rows["eval_seconds"])
        seconds = rows["duration_seconds"] - pauses
        seconds = np.maximum(seconds, 0.0)
        np.add.at(self._rows["ranks"], index, 1)
        np.maximum.at(self._rows["longest"], index, seconds)
        np.add.at(self._rows["busy"], index, seconds)
        np.maximum.at(self._rows["end_wall_ns"], index, np.maximum(ends, 0).astype(np.uint64))

    def baseline(self, world: int) -> float:
        """Median seconds of the attempt's first steps after its warm-up; NaN until enough known."""
        begin = self._first + WARMUP_STEPS
        found = self.seconds(np.arange(begin, begin + BASELINE_STEPS), world)
        known = found[~np.isnan(found)]
        return float(np.median(known)) if len(known) >= LEAST_BASELINE_STEPS else float("nan")

    def longest(self) -> float:
        """Seconds of the longest step of any device; NaN before the first."""
        timed = self._rows["longest"][self._rows["ranks"] > 0]
        return float(timed.max()) if len(timed) else float("nan")

    @property
    def any(self) -> bool:
        """Whether a device timed a step."""
        return len(self._rows) > 0

    def of(self, steps: Integers) -> Rows:
        """Rows of `LENGTH` of these steps (steps,); all 0 where no device timed one."""
        index = steps - self._first
        found = np.zeros(len(steps), dtype=LENGTH)
        inside = (index >= 0) & (index < len(self._rows))
        found[inside] = self._rows[index[inside]]
        return found

    def seconds(self, steps: Integers, world: int) -> Vector:
        """Seconds of each of `steps`; NaN where fewer than `world` devices timed it."""
        rows = self.of(steps)
        timed = (rows["ranks"] > 0) & (rows["ranks"] >= world)
        return np.where(timed, rows["longest"].astype(np.float64), np.nan)
