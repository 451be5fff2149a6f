"""The newest steps of an attempt as all who take them apart look at them, and their collectives."""

from __future__ import annotations

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.collective_timing import Waits, waits
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.collector.state.trackers.step_window import Window

WINDOW_STEPS = 64
"""Steps looked at: enough to even out noise, few enough to show the run as it is now."""
MAX_CELLS, LEAST_STEPS = 1 << 16, 8
"""(step, rank) cells looked at in a large job, and the fewest steps: every reader waits for it."""


def newest_window(attempt: Attempt) -> Window:
    """As many of the newest steps as can be evaluated at once."""
    affordable = MAX_CELLS // max(1, attempt.world)
    return attempt.window(min(WINDOW_STEPS, max(LEAST_STEPS, affordable)))


def waits_of(attempt: Attempt, window: Window) -> Waits:
    """The collectives of the steps of `window`, on its clock."""
    first, last = span_of(window) or (1, 0)
    records = collectives_on(attempt, window.clock)
    return waits(records.of_steps(first, last), records.groups)


def span_of(window: Window) -> tuple[int, int] | None:
    """First and last step of the window; None where it is empty."""
    return (int(window.steps[0]), int(window.steps[-1])) if len(window.steps) else None
