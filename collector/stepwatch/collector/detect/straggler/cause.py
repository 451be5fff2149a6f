"""Why a rank is slow, as far as its device, its node and its phase tell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.names import Cause


class RankFacts(NamedTuple):
    """What the node reports of each rank over the window, arrays (ranks,), NaN where unknown.

    `cpu_ratio` is CPU time per second, `run_queue_ratio` time spent runnable but not running.
    """

    cpu_ratio: Vector
    run_queue_ratio: Vector

    def for_ranks(self, ranks: Integers) -> RankFacts:
        """Those of some ranks."""
        return RankFacts(self.cpu_ratio[ranks], self.run_queue_ratio[ranks])


class Excess(NamedTuple):
    """Seconds per step that a rank takes longer than its peers, and `idle`, the part of them in
    which its device waited for its host; NaN where no device timed it.
    """

    seconds: float
    idle: float = math.nan


def cause_of(
    phase: str, rank: int, excess: Excess, step: float, facts: RankFacts, limits: Thresholds
) -> Cause:
    """CPU contention where the wait for a CPU makes up the excess, else what its phase suggests.

    Where the device timed the phase, its work is slow compute whatever the host does, and its
    wait for the host is the host's: launch-bound. `step` is in seconds.
    """
    on_device = phase != "data" and not math.isnan(excess.idle)
    if on_device and excess.idle < limits.launch_share * excess.seconds:
        return Cause.SLOW_COMPUTE
    if _waits_for_a_cpu(rank, excess.seconds, step, facts, limits):
        return Cause.CPU_CONTENTION
    if on_device:
        return Cause.LAUNCH_BOUND
    return Cause.SLOW_DATA if phase == "data" else Cause.SLOW_COMPUTE


def _waits_for_a_cpu(
    rank: int, excess: float, step: float, facts: RankFacts, limits: Thresholds
) -> bool:
    if not excess > limits.least_lost_ratio * step:
        return False  # any wait makes up an excess of nothing
    queue, usual = float(facts.run_queue_ratio[rank]), _usual(facts.run_queue_ratio, rank)
    more = (queue - (0.0 if math.isnan(usual) else usual)) * step
    computes = (float(facts.cpu_ratio[rank]) - _usual(facts.cpu_ratio, rank)) * step
    if computes > more:  # a rank that has more to do queues for longer, too
        return False
    share = limits.run_queue_share
    if queue >= limits.run_queue_pressure and _computes_as_its_peers(rank, facts, limits):
        share = limits.pressed_share
    return more >= share * excess


def _computes_as_its_peers(rank: int, facts: RankFacts, limits: Thresholds) -> bool:
    """Whether a rank uses no more CPU than the others: one that does has more to do."""
    return float(facts.cpu_ratio[rank]) <= limits.usual_cpu_ratio * _usual(facts.cpu_ratio, rank)


def _usual(values: Vector, rank: int) -> float:
    """Median of the other ranks, NaN where none is known."""
    peers = np.delete(values, rank)
    return float(np.nanmedian(peers)) if np.isfinite(peers).any() else math.nan
