"""Curves that the collector measures itself: step time, tokens per second, and MFU.

They come from the step history. Each step has one value, on the job's step clock, once it counts
for all ranks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.over_run.slis.pace.throughput import peak_tokens_per_second
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_facts import step_facts
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.signals.arrays import Integers, Mask, Vector

from .points import Points

STEP_SECONDS, TOKENS_PER_SECOND, MFU = "step_seconds", "tokens_per_second", "mfu"
UNITS = {STEP_SECONDS: "s", TOKENS_PER_SECOND: "tokens/s", MFU: "ratio"}
BETTER = {STEP_SECONDS: "lower", TOKENS_PER_SECOND: "higher", MFU: "higher"}


class Pace(NamedTuple):
    """One run's settled steps that ranks reported; arrays (steps,).

    `longest` is the slowest rank's step time, `allocated` the time since the previous step's end,
    which the pauses are part of; seconds. `at` is the step's end, Unix seconds. `peak` is the
    tokens per second at the devices' peak, NaN while unknown.
    """

    attempt: int
    step: Integers
    at: Vector
    longest: Vector
    allocated: Vector
    tokens: Vector
    is_first: Mask
    peak: float

    def points(self, name: str) -> Points:
        """Return one of the curves, a point for each step.

        A mean of rates is the tokens over the seconds, so their weight is seconds. The attempt's
        first step has no rate: it includes the start-up.
        """
        if name == STEP_SECONDS:
            return self._points(self.longest, np.ones(len(self.step)), self.longest > 0)
        known = (self.tokens > 0) & (self.allocated > 0) & ~self.is_first
        rate = np.divide(self.tokens, self.allocated, out=np.zeros(len(self.step)), where=known)
        if name == MFU:
            known = known & (not math.isnan(self.peak))
            rate = rate / self.peak
        return self._points(rate, self.allocated, known)

    def _points(self, values: Vector, weight: Vector, known: Mask) -> Points:
        nothing = np.zeros(len(self.step), dtype=np.int64)
        every = Points(
            nothing + self.attempt,
            self.step,
            self.step,
            nothing,
            self.at,
            self.at,
            values,
            values,
            values,
            values,
            weight,
            nothing,
        )
        return every.chosen(known)


def pace_of(attempt: Attempt, redone_from: int | None) -> Pace:
    """Return a run's settled steps, without those from `redone_from` on.

    A clock that is ahead counts as the collector's.
    """
    facts, history = step_facts(attempt, redone_from), attempt.steps.history
    steps = history.steps[: len(facts.longest)]
    awaited = attempt.tracker(SettledSteps).awaited
    settled = steps < (history.first if awaited is None else awaited)
    known = settled & (facts.observed > 0) & ~facts.lost
    received = history.rows["received_s"][: len(steps)]
    return Pace(
        attempt=attempt.number,
        step=steps[known],
        at=np.minimum(facts.end_s, received)[known],
        longest=facts.longest[known],
        allocated=facts.allocated[known],
        tokens=facts.tokens.astype(np.float64)[known],
        is_first=(steps == history.first)[known],
        peak=peak_tokens_per_second(attempt),
    )
