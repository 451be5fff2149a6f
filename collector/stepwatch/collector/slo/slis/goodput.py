"""Goodput: device-seconds with preserved work, as a share of all allocated device-seconds."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli, Standing
from stepwatch.signals.arrays import Vector


def good_and_total(attempt: AttemptSteps) -> tuple[Vector, Vector]:
    """Return good and total device-seconds per step.

    Good: finished steps that no later attempt redoes, without their stalled share, and evaluations,
    which are requested work. Total: all allocated device-seconds.

    Allocation runs from an attempt's start to its last step, for all ranks, so start-up, stalls and
    redone steps are lost goodput. So is time outside steps: a hang while it lasts and until the
    ranks have ended, attempts without a step, and the wait for the next attempt while the devices
    are held. Steps that no rank reported count for neither.
    """
    steps = attempt.steps
    total = np.where(steps.observed > 0, steps.allocated * steps.world, 0.0)
    is_lost = steps.lost | steps.unfinished
    evaluated = steps.parts["eval"].astype(np.float64)
    evaluated[np.isnan(evaluated)] = 0.0
    work = steps.busy * (1.0 - attempt.held_up_share) + evaluated
    return np.where(is_lost, 0.0, np.minimum(work, total)), total


SLI = Sli("goodput", good_and_total, counts=Standing.ALL)
