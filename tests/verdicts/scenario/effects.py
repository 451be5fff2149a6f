"""What each fault of a scenario does to its steps: the same steps with and without them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .course.timeline import Timeline
from .plan import Fault, Scenario

_FELT = 0.01
"""A step is hit where it takes so much longer, as a share of what it took without faults."""


class Effect(NamedTuple):
    """The first step that a fault hits, seconds that the job loses while it lasts, and seconds of
    these steps in all."""

    first_step: int
    seconds: float
    total_seconds: float

    @property
    def lost(self) -> float:
        """The share of the throughput that is lost while it lasts."""
        return self.seconds / max(self.total_seconds, 1e-9)


def effects(scenario: Scenario) -> dict[Fault, Effect]:
    """What each fault does. Where faults last at the same time, what they do together."""
    if not scenario.faults:
        return {}
    slow = list(Timeline(scenario).steps())
    without = Timeline(replace(scenario, faults=(), seconds=math.inf)).steps()
    usual = [next(without) for _ in slow]
    began = np.array([float(step.began.max()) for step in slow])
    took, should = (
        np.array([float(step.end.max() - step.began.max()) for step in run])
        for run in (slow, usual)
    )
    longer = took - should
    by_fault = {}
    for fault in scenario.faults:
        lasts = np.array([fault.lasts(moment) for moment in began.tolist()])
        hit = np.flatnonzero(lasts & (longer > _FELT * should))
        first = int(hit[0]) if len(hit) else 0
        by_fault[fault] = Effect(first, float(longer[lasts].sum()), float(took[lasts].sum()))
    return by_fault
