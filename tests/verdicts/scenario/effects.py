"""The effect of each fault on a scenario's steps: the same steps with and without it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .course.timeline import Timeline
from .plan import Fault, Scenario

_FELT = 0.01
"""A fault hits a step that takes so much longer, as a share of its time without faults."""


class Effect(NamedTuple):
    """A fault's effect: its first step, the lost seconds while it lasts, and these steps' total."""

    first_step: int
    seconds: float
    total_seconds: float

    @property
    def lost(self) -> float:
        """The share of the throughput that is lost while the fault lasts."""
        return self.seconds / max(self.total_seconds, 1e-9)


def effects(scenario: Scenario) -> dict[Fault, Effect]:
    """Return the effect of each fault; simultaneous faults have their common effect."""
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
