"""What the first steps of an attempt were made of: the baseline of later attempts."""

from __future__ import annotations

import operator

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.folding.sums import whole_sum
from stepwatch.collector.state.trackers.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.collector.state.trackers.step_window import COLUMNS, nanoseconds_of
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.wire import Rows

KEPT_STEPS = WARMUP_STEPS + BASELINE_STEPS
LEAST_STEPS = 8
"""The fewest steps after the warm-up that say anything."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


class EarlyBaseline:
    """Sums over ranks for the first steps; at most `KEPT_STEPS` of them."""

    def __init__(self) -> None:
        self._sums: dict[int, list[int]] = {}
        """By step, in rising order: nanoseconds of each of `COLUMNS`, then the ranks."""

    def add(self, steps: Rows) -> None:
        """Take STEP or DEVICE_STEP rows, each (rank, step) once.

        A step beyond the first ones is left out.
        """
        if len(self._sums) >= KEPT_STEPS:
            steps = chosen(steps, steps["step"] <= max(self._sums))
            if not len(steps):  # nearly always
                return
        for number in np.unique(steps["step"])[:KEPT_STEPS].tolist():
            rows = chosen(steps, steps["step"] == number)
            more = [*(whole_sum(nanoseconds_of(rows, name)) for name in COLUMNS), len(rows)]
            known = self._sums.get(number, [0] * len(more))
            self._sums[number] = [*map(operator.add, known, more)]
        self._sums = dict(sorted(self._sums.items())[:KEPT_STEPS])

    def seconds(self, world: int) -> dict[str, Vector]:
        """For each of `COLUMNS` the mean over ranks, in seconds, of every step after the warm-up.

        Steps that not all of `world` ranks reported are left out; empty until there are enough.
        """
        known = [*self._sums.values()][WARMUP_STEPS:]
        complete = [sums[:-1] for sums in known if sums[-1] == world]
        if len(complete) < LEAST_STEPS:
            return {}
        means = np.array(complete, dtype=np.float64) / (world * NANOSECONDS)
        return {name: means[:, at] for at, name in enumerate(COLUMNS)}
