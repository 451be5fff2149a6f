"""What the first steps of an attempt took and consist of: only what is alike is compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_clock import baseline_on, early_baseline_on
from stepwatch.collector.state.trackers.steps.baseline import Exchanged
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.collector.state.trackers.steps.step_window import StepClock

_SAME_BYTES = 0.1
"""Messages of one model differ by less; another sharding or precision changes them by more."""


class Beginning(NamedTuple):
    """The first steps of an attempt: on which clock they are timed, what they took and what ranks
    `exchanged` in them, pipeline stages and nodes."""

    clock: StepClock
    waits: UsualWaits
    exchanged: Exchanged
    stages: int
    nodes: int

    def is_like(self, reference: Beginning) -> bool:
        """Whether both do the same on as many nodes: as many calls of as many bytes in groups of
        one size. Where no exchange is known, nobody can tell."""
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
    """That of an attempt on one clock; None while it is not known."""
    waits = early_baseline_on(attempt, clock).usual_waits(attempt.world)
    if waits is None:
        return None
    on_nodes = np.bincount(attempt.ranks.node_at + 1)[1:]
    stages = int(attempt.stages.max(initial=-1)) + 1
    exchanged = baseline_on(attempt, clock).exchanged
    return Beginning(clock, waits, exchanged, stages, int((on_nodes > 0).sum()))
