"""What the first steps of an attempt were made of: the baseline of later attempts."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.folding.sums import whole_sum
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.collector.state.trackers.steps.step_window import COLUMNS, WORK, nanoseconds_of
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.wire import Rows

KEPT_STEPS = WARMUP_STEPS + BASELINE_STEPS
LEAST_STEPS = 8
"""The fewest steps after the warm-up that say anything."""
PAUSE_TIMES = 4.0
"""A step so many times as long as the median one holds a pause that nobody marked."""
PAUSES = ("checkpoint", "eval")

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


class UsualWaits(NamedTuple):
    """Seconds of a step, the mean of the first ones without pauses: its length and what ranks work
    and wait for pipeline neighbours, on average over ranks, and what the rank that waits least
    waits in collectives: nobody is waited for then, but the transfer."""

    step: float
    work: float
    neighbours: float
    least_wait: float


class EarlyBaseline:
    """Sums over ranks for the first steps; at most `KEPT_STEPS` of them."""

    def __init__(self) -> None:
        self._sums: dict[int, list[int]] = {}
        """By step, in rising order: nanoseconds of each of `COLUMNS`, then the ranks."""
        self._least_waits: dict[int, int] = {}
        """By step: the fewest nanoseconds that a rank waited in collectives."""

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
            waited = int(nanoseconds_of(rows, "collective").min())
            self._least_waits[number] = min(self._least_waits.get(number, waited), waited)
            more = [*(whole_sum(nanoseconds_of(rows, name)) for name in COLUMNS), len(rows)]
            sums = self._sums.get(number, [0] * len(more))
            self._sums[number] = [*map(operator.add, sums, more)]
        self._sums = dict(sorted(self._sums.items())[:KEPT_STEPS])
        self._least_waits = {number: self._least_waits[number] for number in self._sums}

    def seconds(self, world: int) -> dict[str, Vector]:
        """For each of `COLUMNS` the mean over ranks, in seconds, of every step after the warm-up.

        Steps that not all of `world` ranks reported are left out; empty until there are enough.
        """
        complete = [self._sums[number][:-1] for number in self._complete(world)]
        if len(complete) < LEAST_STEPS:
            return {}
        means = np.array(complete, dtype=np.float64) / (world * NANOSECONDS)
        return {name: means[:, column] for column, name in enumerate(COLUMNS)}

    def usual_waits(self, world: int) -> UsualWaits | None:
        """What those steps took and what ranks waited in them; None until there are enough."""
        complete = self._complete(world)
        if len(complete) < LEAST_STEPS:
            return None
        sums = tuple(tuple(self._sums[number][:-1]) for number in complete)
        return _usual_waits(sums, tuple(map(self._least_waits.__getitem__, complete)), world)

    def _complete(self, world: int) -> list[int]:
        """The steps after the warm-up that all of `world` ranks reported."""
        after_warmup = [*self._sums.items()][WARMUP_STEPS:]
        return [number for number, sums in after_warmup if sums[-1] == world]


@lru_cache(maxsize=1024)
def _usual_waits(
    sums: tuple[tuple[int, ...], ...], least_waits: tuple[int, ...], world: int
) -> UsualWaits | None:
    """The same of these sums: nearly always they are those of before."""
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
