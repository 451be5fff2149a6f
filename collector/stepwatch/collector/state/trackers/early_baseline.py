"""What the first steps of an attempt were made of: the baseline of later attempts."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.trackers.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.collector.state.trackers.step_window import COLUMNS, seconds_of
from stepwatch.signals.wire import Rows

KEPT_STEPS = WARMUP_STEPS + BASELINE_STEPS
LEAST_STEPS = 8
"""The fewest steps after the warm-up that say anything."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


class EarlyBaseline:
    """Sums over ranks for the first steps; at most `KEPT_STEPS` of them."""

    def __init__(self) -> None:
        self._ranks: dict[int, int] = {}
        self._sums: dict[int, Vector] = {}

    def add(self, steps: Rows) -> None:
        """Take STEP or DEVICE_STEP rows, each (rank, step) once.

        A step beyond the first ones is left out.
        """
        numbers = steps["step"]
        if len(self._sums) >= KEPT_STEPS:
            steps = steps[numbers <= max(self._sums)]
        for number in np.unique(steps["step"])[:KEPT_STEPS].tolist():
            rows = steps[steps["step"] == number]
            sums = np.array([seconds_of(rows, name).sum(dtype=np.float64) for name in COLUMNS])
            self._sums[number] = self._sums.get(number, 0.0) + sums
            self._ranks[number] = self._ranks.get(number, 0) + len(rows)
            if len(self._sums) > KEPT_STEPS:
                latest = max(self._sums)
                del self._sums[latest], self._ranks[latest]

    def seconds(self, world: int) -> dict[str, Vector]:
        """For each of `COLUMNS` the mean over ranks, in seconds, of every step after the warm-up.

        Steps that not all of `world` ranks reported are left out; empty until there are enough.
        """
        known = sorted(self._sums)[WARMUP_STEPS:]
        complete = [number for number in known if self._ranks[number] == world]
        if len(complete) < LEAST_STEPS:
            return {}
        means = np.array([self._sums[number] / world for number in complete])
        return {name: means[:, at] for at, name in enumerate(COLUMNS)}
