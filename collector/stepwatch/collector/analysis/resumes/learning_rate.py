"""Whether the learning rate continues across a resume."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.resumes.earlier import Resume
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.signals.arrays import Integers, Vector

RATE = "lr"
"""The metric's name."""
_RATES_BEFORE = 64
_ROUNDING = 1e-6
"""Part of a rate: a trainer computes the same rate from a step number or from the one before."""


def rate_continued(resume: Resume) -> bool | None:
    """Return whether the rates of the first steps follow those before; None if unknown.

    Where the earlier run made the same steps, its rates around each step are the bounds. Where it
    did not, a rate may differ from its last one by as much as it changed in any step before. A rate
    beyond that may be a step in its schedule, unless the rates begin as in the job's first steps.
    """
    steps, rates = _first(resume.attempt)
    steps = steps + resume.shift
    if not len(steps):
        return None
    for run, _ in resume.earlier:
        known_steps, known_rates = _newest(run, int(steps[-1]))
        place = int(np.searchsorted(known_steps, steps[0], side="right"))
        if not place:
            continue
        if known_steps[-1] >= steps[0]:
            return _within(steps, rates, known_steps, known_rates)
        distance = int(steps[0] - known_steps[-1])
        allowed = distance * _largest_change(known_steps, known_rates)
        if abs(rates[0] - known_rates[-1]) <= allowed + _ROUNDING * abs(rates[0]):
            return True
        return False if _begins_again(resume, steps, rates) else None
    return None


def _within(
    steps: Integers, rates: Vector, known_steps: Integers, known_rates: Vector
) -> bool | None:
    """Return whether rates lie between the known ones around them; None if only nearby.

    Known are 0.3 at step 10 and 0.2 at step 20: at step 15, 0.25 continues, 0.35 may be the top of
    a warm-up between the two, and 3.0 does not continue.
    """
    steps, rates = steps[steps <= known_steps[-1]], rates[steps <= known_steps[-1]]
    after = np.searchsorted(known_steps, steps)
    before = np.maximum(np.searchsorted(known_steps, steps, side="right") - 1, 0)
    least = np.minimum(known_rates[before], known_rates[after])
    most = np.maximum(known_rates[before], known_rates[after])
    beyond = np.maximum(least - rates, rates - most) - _ROUNDING * np.abs(most)
    if (beyond <= 0).all():
        return True
    return False if (beyond > most - least).any() else None


def _largest_change(steps: Integers, rates: Vector) -> float:
    """Return the largest change of a rate in one step, from the newest rates."""
    steps, rates = steps[-_RATES_BEFORE:], rates[-_RATES_BEFORE:]
    return float((np.abs(np.diff(rates)) / np.diff(steps)).max(initial=0.0))


def _begins_again(resume: Resume, steps: Integers, rates: Vector) -> bool:
    """Return whether the rates are those of the job's first steps."""
    first_steps, first_rates = _first(resume.oldest)
    if not len(first_steps) or resume.oldest is resume.attempt:
        return False
    same = np.isin(first_steps - first_steps[0], steps - steps[0])
    count = int(np.count_nonzero(same))
    expected = first_rates[same]
    shown = rates[np.isin(steps - steps[0], first_steps - first_steps[0])]
    return count > 0 and bool(np.allclose(shown, expected, rtol=_ROUNDING, atol=0.0))


def _first(attempt: Attempt) -> tuple[Integers, Vector]:
    """Return the steps and rates of an attempt's first steps, as far as they are known."""
    metrics = attempt.tracker(Metrics)
    index = metrics.names.index(RATE)
    if index is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    curve = metrics.first(index)
    known = np.isfinite(curve.last)
    return curve.step[known], curve.last[known]


def _newest(attempt: Attempt, until_step: int) -> tuple[Integers, Vector]:
    """Return an attempt's steps and rates up to a step, oldest first."""
    metrics = attempt.tracker(Metrics)
    index = metrics.names.index(RATE)
    if index is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    steps, rates = metrics.newest(index, until_step)
    known = np.isfinite(rates)
    return steps[known], rates[known]
