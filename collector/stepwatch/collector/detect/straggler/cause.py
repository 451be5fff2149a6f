"""Why a rank is slow, as far as its device, its node and its phase show."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.names import Cause


class RankFacts(NamedTuple):
    """The node's reports on each rank over the window, arrays (ranks,), NaN where unknown.

    `cpu_ratio` is CPU time per second, `run_queue_ratio` the time spent runnable but not running.
    """

    cpu_ratio: Vector
    run_queue_ratio: Vector

    def for_ranks(self, ranks: Integers) -> RankFacts:
        """Return the facts for some ranks."""
        return RankFacts(self.cpu_ratio[ranks], self.run_queue_ratio[ranks])


class Excess(NamedTuple):
    """A rank's excess seconds per step over its peers.

    `idle` is the part in which its device waited for its host, NaN if no device timed it.
    """

    seconds: float
    idle: float = math.nan


def cause_of(
    phase: str, rank: int, excess: Excess, step: float, facts: RankFacts, limits: Thresholds
) -> Cause:
    """Return CPU contention if the CPU wait explains the excess, else the phase's usual cause.

    If the device timed the phase, its work is slow compute whatever the host does, and its wait for
    the host is the host's: launch-bound. `step` is in seconds.
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
        return False  # any wait explains an excess of nothing
    queue, usual = float(facts.run_queue_ratio[rank]), _usual(facts.run_queue_ratio, rank)
    more = (queue - (0.0 if math.isnan(usual) else usual)) * step
    computes = (float(facts.cpu_ratio[rank]) - _usual(facts.cpu_ratio, rank)) * step
    if computes > more:  # a rank with more work queues for longer, too
        return False
    share = limits.run_queue_share
    if queue >= limits.run_queue_pressure and _computes_as_its_peers(rank, facts, limits):
        share = limits.pressed_share
    return more >= share * excess


def _computes_as_its_peers(rank: int, facts: RankFacts, limits: Thresholds) -> bool:
    """Return whether a rank uses no more CPU than the others: one that does has more work."""
    return float(facts.cpu_ratio[rank]) <= limits.usual_cpu_ratio * _usual(facts.cpu_ratio, rank)


def _usual(values: Vector, rank: int) -> float:
    """Return the median over the other ranks, NaN if none is known."""
    peers = np.delete(values, rank)
    return float(np.nanmedian(peers)) if np.isfinite(peers).any() else math.nan
