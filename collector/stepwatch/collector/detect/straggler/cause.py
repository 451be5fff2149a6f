"""Why a rank is slow, as far as its own node and phase tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.signals.arrays import Vector
from stepwatch.signals.names import Cause


class RankFacts(NamedTuple):
    """What the node reports of each rank over the window, arrays (ranks,), NaN where unknown.

    `cpu_ratio` is CPU time per second, `run_queue_ratio` time spent runnable but not running.
    """

    cpu_ratio: Vector
    run_queue_ratio: Vector


def cause_of(
    phase: str, rank: int, excess: float, step: float, facts: RankFacts, limits: Thresholds
) -> Cause:
    """CPU contention where the wait for a CPU makes up the excess, else what its phase suggests.

    `excess` and `step` in seconds per step: what `rank` takes longer than its peers, and the step.
    """
    queued = float(facts.run_queue_ratio[rank]) * step
    others = np.delete(facts.run_queue_ratio, rank)
    usual = float(np.nanmedian(others)) * step if np.isfinite(others).any() else 0.0
    if queued - usual >= limits.run_queue_share * excess:
        return Cause.CPU_CONTENTION
    return Cause.SLOW_DATA if phase == "data" else Cause.SLOW_COMPUTE
