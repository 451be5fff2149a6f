"""Detectors that found nothing in a job's steps run again only when these change.

Agents report each second, and a step may take many seconds: most evaluations of a slow-stepping job
have no new step. A detector with findings runs each time, as its text may include more than steps.
"""

from __future__ import annotations

from collections.abc import Hashable

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_clock import hosts_run_ahead
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps

MOST_RANKS = 1024
"""Above this, comparing the state of all ranks takes as long as many detectors."""


class FoundNothing:
    """The detectors, by their order, that found nothing in one job's current steps."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._orders: set[int] = set()

    def look(self, context: DetectionContext) -> None:
        """Forget all of them if any detector input changed; call it before they run."""
        state = steps_state(context)
        if state is None or state != self._state:
            self._orders.clear()
        self._state = state

    def note(self, order: int) -> None:
        """Record that a detector found nothing."""
        if self._state is not None:
            self._orders.add(order)

    def __contains__(self, order: int) -> bool:
        return order in self._orders


def steps_state(context: DetectionContext) -> Hashable:
    """Return a state that is equal while steps, collectives and rank arrangement are unchanged.

    The result is None if this is not tracked: devices time steps separately, or ranks are many. Any
    received record increases a count in it: rows for steps, collectives, ends and starts, settled
    steps, and dropped steps. A site file may change the thresholds of the job's class.
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
        frozenset(context.class_thresholds.values()),
    )


def _run_state(attempt: Attempt) -> Hashable:
    history, events = attempt.steps.history, attempt.tracker(LifecycleEvents)
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
