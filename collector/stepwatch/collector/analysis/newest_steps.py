"""An attempt's newest steps, as one window for all analyses, and their collectives."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.collective_timing import Waits, waits
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.signals.arrays import Mask
from stepwatch.signals.records import StepFlag

WINDOW_STEPS = 64
"""Window length: long enough to average out noise, short enough to show the current state."""
MAX_CELLS, LEAST_STEPS = 1 << 16, 8
"""Maximum number of (step, rank) cells for a large job, and minimum number of steps.

Every reader waits for the result.
"""


def newest_window(attempt: Attempt) -> Window:
    """Return the newest steps within the cell limit, without first steps."""
    affordable = MAX_CELLS // max(1, attempt.world)
    return without_first(attempt.window(min(WINDOW_STEPS, max(LEAST_STEPS, affordable))))


def without_first(window: Window) -> Window:
    """Return the window without first steps, unless it has no other.

    The first step compiles, and a mean would hide the other steps: on one GPU, a first step with
    1.7 s made 39 steps with 0.23 s appear host-bound for a fifth of their time.
    """
    first: Mask = np.asarray((window.flags & StepFlag.FIRST).any(axis=1))
    return window.select(~first) if first.any() and not first.all() else window


def waits_of(attempt: Attempt, window: Window) -> Waits:
    """Return the collectives in the steps of `window`, on its clock."""
    first, last = span_of(window) or (1, 0)
    records = collectives_on(attempt, window.clock)
    return waits(records.of_steps(first, last), records.groups)


def span_of(window: Window) -> tuple[int, int] | None:
    """Return the window's first and last step; None if it is empty."""
    return (int(window.steps[0]), int(window.steps[-1])) if len(window.steps) else None
