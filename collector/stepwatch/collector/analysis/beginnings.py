"""An attempt's first steps: their duration and work, to compare only similar attempts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_clock import baseline_on, early_baseline_on
from stepwatch.collector.state.trackers.steps.baseline import Exchanged
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.collector.step_clocks import StepClock

_SAME_BYTES = 0.1
"""Tolerance for message sizes: one model varies less; another sharding or precision varies more."""


class Beginning(NamedTuple):
    """An attempt's first steps.

    They consist of the step clock, the usual waits, the data that ranks `exchanged`, the number of
    pipeline stages, and the number of nodes.
    """

    clock: StepClock
    waits: UsualWaits
    exchanged: Exchanged
    stages: int
    nodes: int

    def is_like(self, reference: Beginning) -> bool:
        """Return whether both attempts do the same work on equally many nodes.

        They have equally many calls, with the same bytes, in groups with the same size. Without a
        known exchange the answer is False.
        """
        if not self.exchanged or self.exchanged.keys() != reference.exchanged.keys():
            return False
        if (self.clock, self.stages, self.nodes) != (
            reference.clock,
            reference.stages,
            reference.nodes,
        ):
            return False
        return all(
            calls == exchange.calls and abs(size - exchange.bytes) <= _SAME_BYTES * exchange.bytes
            for (calls, size), exchange in (
                (self.exchanged[key], reference.exchanged[key]) for key in self.exchanged
            )
        )


def beginning_of(attempt: Attempt, clock: StepClock) -> Beginning | None:
    """Return an attempt's beginning on one clock; None while unknown."""
    waits = early_baseline_on(attempt, clock).usual_waits(attempt.world)
    if waits is None:
        return None
    on_nodes = np.bincount(attempt.ranks.node_at + 1)[1:]
    stages = int(attempt.stages.max(initial=-1)) + 1
    exchanged = baseline_on(attempt, clock).exchanged
    return Beginning(clock, waits, exchanged, stages, int((on_nodes > 0).sum()))
