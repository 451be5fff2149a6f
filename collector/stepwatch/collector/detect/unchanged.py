"""Detectors that found nothing in the steps of a job are not asked again until these change.

Agents report each second, and a step may take many: most evaluations of such a job have no new one.
A detector that finds something is asked each time, as what it says may hold more than steps.
"""

from __future__ import annotations

from collections.abc import Hashable

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_clock import hosts_run_ahead
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps

MOST_RANKS = 1024
"""Beyond it to compare what is known of ranks takes as long as many a detector."""


class FoundNothing:
    """The detectors, by their order, that found nothing in one job as its steps are now."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._orders: set[int] = set()

    def look(self, context: DetectionContext) -> None:
        """Forget all of them if anything changed that they read; call it before they are asked."""
        state = steps_state(context)
        if state is None or state != self._state:
            self._orders.clear()
        self._state = state

    def note(self, order: int) -> None:
        """A detector found nothing."""
        if self._state is not None:
            self._orders.add(order)

    def __contains__(self, order: int) -> bool:
        return order in self._orders


def steps_state(context: DetectionContext) -> Hashable:
    """What stays the same as long as all that is known of steps, collectives and the arrangement of
    ranks does; None where that is not followed: devices time steps on their own, or ranks are many.

    Whatever is received counts up in it: rows of steps, of collectives, of ends and starts, steps
    that are settled, and steps that are held no longer.
    """
    job, attempt = context.job, context.attempt
    if hosts_run_ahead(attempt) or attempt.world > MOST_RANKS:
        return None
    records, ranks = attempt.collective_records, attempt.ranks
    return (
        job.totals.rows,
        tuple(_run_state(attempt) for attempt in job.attempts.values()),
        (records.arrived, tuple(records.groups.items())),
        (attempt.world, attempt.stages.tobytes(), ranks.node_at.tobytes()),
        (frozenset(ranks.gone), context.unobserved, context.left_out),
        context.class_throughput.changed(job.name),
    )


def _run_state(attempt: Attempt) -> Hashable:
    history, events = attempt.step_history, attempt.tracker(LifecycleEvents)
    return (
        id(attempt),
        attempt.world,
        attempt.is_released,
        len(attempt.past),
        history.held_from,
        len(history),
        attempt.tracker(SettledSteps).awaited,
        len(events.events),
        len(events.ended),
    )
