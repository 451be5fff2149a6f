"""Curves that the collector measures itself: step time, tokens per second, and MFU.

They come from the step history: a point for each settled step in memory, at least the newest 16,384
of the job, and buckets of 10 s to 1 h for earlier ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.over_run.slis.pace.throughput import peak_tokens_per_second
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_facts import pace_rows, step_facts
from stepwatch.collector.state.trackers.steps.dropped_curves import SPANS
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.signals.arrays import Rows

from .points import Points, finest_first

STEP_SECONDS, TOKENS_PER_SECOND, MFU = "step_seconds", "tokens_per_second", "mfu"
UNITS = {STEP_SECONDS: "s", TOKENS_PER_SECOND: "tokens/s", MFU: "ratio"}
BETTER = {STEP_SECONDS: "lower", TOKENS_PER_SECOND: "higher", MFU: "higher"}


class Pace(NamedTuple):
    """One run's `PACE` rows by the seconds of their buckets, 0 for single steps, finest first.

    `peak` is the tokens per second at the devices' peak, NaN while unknown.
    """

    attempt: int
    levels: dict[int, Rows]
    peak: float

    def has(self, name: str) -> bool:
        """Return whether one of the curves has a point."""
        column = "steps" if name == STEP_SECONDS else "token_seconds"
        is_scaled = name != MFU or not math.isnan(self.peak)
        return is_scaled and any(bool((rows[column] > 0).any()) for rows in self.levels.values())

    def until(self, step: float) -> Pace:
        """Return the pace before a step; a bucket counts if all of its steps do."""
        levels = {seconds: rows[rows["step"] < step] for seconds, rows in self.levels.items()}
        return self._replace(levels=levels)

    def points(self, name: str) -> Points:
        """Return one of the curves, from the finest level that holds each part of its time."""
        levels = self.levels.items()
        if name == STEP_SECONDS:
            return finest_first([self._lengths(rows, seconds) for seconds, rows in levels])
        scale = self.peak if name == MFU else 1.0
        if math.isnan(scale):
            return Points.nothing()
        return finest_first([self._rates(rows, seconds, scale) for seconds, rows in levels])

    def _lengths(self, rows: Rows, seconds: int) -> Points:
        rows = rows[rows["steps"] > 0]
        weight = rows["steps"].astype(np.float64)
        return self._points(rows, seconds)._replace(
            mean=rows["seconds"] / weight,
            least=rows["least"],
            greatest=rows["greatest"],
            last=rows["last"],
            weight=weight,
        )

    def _rates(self, rows: Rows, seconds: int, scale: float) -> Points:
        """Return tokens per second over `scale`; a mean is the tokens over their time."""
        rows = rows[rows["token_seconds"] > 0]
        weight = rows["token_seconds"]
        return self._points(rows, seconds)._replace(
            mean=rows["tokens"] / weight / scale,
            least=rows["least_rate"] / scale,
            greatest=rows["greatest_rate"] / scale,
            last=rows["last_rate"] / scale,
            weight=weight,
        )

    def _points(self, rows: Rows, seconds: int) -> Points:
        """Return the rows' steps and times, without values."""
        nothing, unknown = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), np.nan)
        return Points(
            attempt=nothing + self.attempt,
            first_step=rows["first_step"],
            step=rows["step"],
            seconds=nothing + seconds,
            begin=rows["start_s"].astype(np.float64) if seconds else rows["at"],
            at=rows["at"],
            mean=unknown,
            least=unknown,
            greatest=unknown,
            last=unknown,
            weight=unknown,
            non_finite=nothing,
        )


def pace_of(attempt: Attempt) -> Pace:
    """Return a run's settled steps."""
    history = attempt.steps.history
    awaited = attempt.tracker(SettledSteps).awaited
    end = history.first if awaited is None else awaited
    dropped = (history.dropped.curves.span(seconds) for seconds in SPANS)
    levels = {0: pace_rows(attempt, step_facts(attempt, None))}
    levels |= {
        seconds: part.rows for seconds, part in zip(SPANS, dropped, strict=True) if part is not None
    }
    return Pace(attempt.number, levels, peak_tokens_per_second(attempt)).until(end)
