"""Composition of an attempt's first steps: the baseline for later attempts."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import COLUMNS, WORK, nanoseconds_of
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.folding.sums import whole_sum
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.wire import Rows

KEPT_STEPS = WARMUP_STEPS + BASELINE_STEPS
LEAST_STEPS = 8
"""Fewest steps after the warm-up for a valid baseline."""
PAUSE_TIMES = 4.0
"""A step this many times the median length contains an unmarked pause."""
PAUSES = ("checkpoint", "eval")

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


class UsualWaits(NamedTuple):
    """Usual seconds per step: means over the first steps without pauses.

    `step` is the length, `work` and `neighbours` the ranks' mean work and mean wait for pipeline
    neighbours, `least_wait` the collective time of the rank that waits least, which is the transfer
    alone.
    """

    step: float
    work: float
    neighbours: float
    least_wait: float


class EarlyBaseline:
    """Sums over ranks for the first steps; at most `KEPT_STEPS`."""

    def __init__(self) -> None:
        self._sums: dict[int, list[int]] = {}
        """By step, in rising order: nanoseconds in each of `COLUMNS`, then the number of ranks."""
        self._least_waits: dict[int, int] = {}
        """By step: the fewest nanoseconds that a rank waited in collectives."""

    def add(self, steps: Rows) -> None:
        """Add STEP or DEVICE_STEP rows, each (rank, step) once.

        Steps beyond the first ones are ignored.
        """
        if len(self._sums) >= KEPT_STEPS:
            steps = chosen(steps, steps["step"] <= max(self._sums))
            if not len(steps):  # nearly always
                return
        for number in np.unique(steps["step"])[:KEPT_STEPS].tolist():
            rows = chosen(steps, steps["step"] == number)
            waited = int(nanoseconds_of(rows, "collective").min())
            self._least_waits[number] = min(self._least_waits.get(number, waited), waited)
            more = [*(whole_sum(nanoseconds_of(rows, name)) for name in COLUMNS), len(rows)]
            sums = self._sums.get(number, [0] * len(more))
            self._sums[number] = [*map(operator.add, sums, more)]
        self._sums = dict(sorted(self._sums.items())[:KEPT_STEPS])
        self._least_waits = {number: self._least_waits[number] for number in self._sums}

    def seconds(self, world: int) -> dict[str, Vector]:
        """Return for each of `COLUMNS` the mean over ranks, in seconds, per step after the warm-up.

        Only steps that all `world` ranks reported count; empty until there are enough.
        """
        complete = [self._sums[number][:-1] for number in self._complete(world)]
        if len(complete) < LEAST_STEPS:
            return {}
        means = np.array(complete, dtype=np.float64) / (world * NANOSECONDS)
        return {name: means[:, column] for column, name in enumerate(COLUMNS)}

    def usual_waits(self, world: int) -> UsualWaits | None:
        """Return the first steps' length and waits; None until there are enough."""
        complete = self._complete(world)
        if len(complete) < LEAST_STEPS:
            return None
        sums = tuple(tuple(self._sums[number][:-1]) for number in complete)
        return _usual_waits(sums, tuple(map(self._least_waits.__getitem__, complete)), world)

    def _complete(self, world: int) -> list[int]:
        """Return the steps after the warm-up that all `world` ranks reported."""
        after_warmup = [*self._sums.items()][WARMUP_STEPS:]
        return [number for number, sums in after_warmup if sums[-1] == world]


@lru_cache(maxsize=1024)
def _usual_waits(
    sums: tuple[tuple[int, ...], ...], least_waits: tuple[int, ...], world: int
) -> UsualWaits | None:
    """Return the usual waits; cached because the sums are nearly always unchanged."""
    means = np.array(sums, dtype=np.float64) / (world * NANOSECONDS)
    columns = dict(zip(COLUMNS, means.T, strict=True))
    usual = columns["duration"] <= PAUSE_TIMES * np.median(columns["duration"])
    for name in PAUSES:
        usual &= columns[name] == 0.0
    if usual.sum() < LEAST_STEPS:
        return None
    return UsualWaits(
        float(columns["duration"][usual].mean()),
        float(np.sum([columns[name][usual] for name in WORK], axis=0).mean()),
        float(columns["pipeline_wait"][usual].mean()),
        float(np.array(least_waits)[usual].mean()) / NANOSECONDS,
    )
