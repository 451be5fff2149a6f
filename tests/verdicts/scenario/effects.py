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
    of: float

    @property
    def lost(self) -> float:
        """The share of the throughput that is lost while it lasts."""
        return self.seconds / max(self.of, 1e-9)


def effects(scenario: Scenario) -> dict[Fault, Effect]:
    """What each fault does. Where faults last at the same time, what they do together."""
    if not scenario.faults:
        return {}
    slow = list(Timeline(scenario).steps())
    without = Timeline(replace(scenario, faults=(), seconds=math.inf)).steps()
    usual = [next(without) for _ in slow]
    began = np.array([float(each.began.max()) for each in slow])
    took, should = (
        np.array([float(each.end.max() - each.began.max()) for each in run])
        for run in (slow, usual)
    )
    longer = took - should
    found = {}
    for fault in scenario.faults:
        lasts = np.array([fault.lasts(at) for at in began.tolist()])
        hit = np.flatnonzero(lasts & (longer > _FELT * should))
        first = int(hit[0]) if len(hit) else 0
        found[fault] = Effect(first, float(longer[lasts].sum()), float(took[lasts].sum()))
    return found
