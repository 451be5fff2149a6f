"""Goodput: device-seconds of work that was preserved, of all device-seconds allocated."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.held_up import held_up_share
from stepwatch.collector.slo.registry import AttemptSteps, Sli, Standing
from stepwatch.signals.arrays import Vector


def good_and_total(attempt: AttemptSteps) -> tuple[Vector, Vector]:
    """Good: device-seconds of finished steps that no later attempt redoes, but for the share in
    which nothing moved, and of evaluations in them, which are work that was asked for. Total: all
    allocated.

    Allocation runs from the start of an attempt to its last step, all ranks included, so start-up,
    stalls and redone steps are all lost goodput. So is time in no step: a hang while it lasts and
    until the ranks have ended, attempts that make no step, and waiting for the next attempt where
    the devices were held. Steps that nobody reported count for neither.
    """
    steps = attempt.steps
    total = np.where(steps.observed > 0, steps.allocated * steps.world, 0.0)
    is_lost = steps.lost | steps.unfinished
    work = steps.busy * (1.0 - held_up_share(attempt)) + np.nan_to_num(
        steps.parts["eval"].astype(np.float64)
    )
    return np.where(is_lost, 0.0, np.minimum(work, total)), total


SLI = Sli("goodput", good_and_total, counts=Standing.ALL)
