"""The newest steps of an attempt as all who take them apart look at them, and their collectives."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.collective_timing import Waits, waits
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.collector.state.trackers.steps.step_window import Window
from stepwatch.signals.arrays import Mask
from stepwatch.signals.records import StepFlag

WINDOW_STEPS = 64
"""Steps looked at: enough to even out noise, few enough to show the run as it is now."""
MAX_CELLS, LEAST_STEPS = 1 << 16, 8
"""(step, rank) cells looked at in a large job, and the fewest steps: every reader waits for it."""


def newest_window(attempt: Attempt) -> Window:
    """As many of the newest steps as can be evaluated at once, without first ones."""
    affordable = MAX_CELLS // max(1, attempt.world)
    return without_first(attempt.window(min(WINDOW_STEPS, max(LEAST_STEPS, affordable))))


def without_first(window: Window) -> Window:
    """A window without the step that compiles, unless it has no other: a mean would hide the rest.

    On one GPU a first step of 1.7 s made 39 steps of 0.23 s wait for their host for a fifth of
    their time.
    """
    first: Mask = np.asarray((window.flags & StepFlag.FIRST).any(axis=1))
    return window.at(~first) if first.any() and not first.all() else window


def waits_of(attempt: Attempt, window: Window) -> Waits:
    """The collectives of the steps of `window`, on its clock."""
    first, last = span_of(window) or (1, 0)
    records = collectives_on(attempt, window.clock)
    return waits(records.of_steps(first, last), records.groups)


def span_of(window: Window) -> tuple[int, int] | None:
    """First and last step of the window; None where it is empty."""
    return (int(window.steps[0]), int(window.steps[-1])) if len(window.steps) else None
