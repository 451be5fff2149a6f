"""A rank named by accumulated evidence, in terms of the newest steps."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect.straggler.evidence.costly import CostlyRank
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank
from stepwatch.signals.arrays import Floats, Integers


def accumulated(costly: CostlyRank, steps: EvaluatedSteps) -> SlowRank:
    """Return `costly` with its work and its peers' work in the evaluated steps that show it.

    If most of its steps are slow by less than half of the slow steps' excess, it is slow
    occasionally, and only its slow steps count. If none is slow, the per-step work from its buckets
    replaces the first one.
    """
    part = steps.around(np.array([costly.rank]))
    column = int(np.searchsorted(part.ranks, costly.rank))
    every = part.self_time(costly.phase)
    rank_seconds, peers = every[:, column], part.peers(every, costly.phase)[:, column]
    end = len(part.steps)
    if costly.until >= 0:
        end = max(1, int(np.searchsorted(part.steps, costly.until)))
    since = _since(part.steps[:end], (rank_seconds - peers)[:end], costly)
    shows, step_count = _shows(
        (rank_seconds - peers)[since:end], _level(costly, (rank_seconds - peers)[since:end])
    )
    if not len(shows):
        rank_seconds, peers = rank_seconds.astype(np.float64), peers.astype(np.float64)
        rank_seconds[since], peers[since] = costly.work
        shows, step_count = np.zeros(1, dtype=np.int64), 0
    return SlowRank(
        rank=costly.rank,
        phase=costly.phase,
        self_seconds=rank_seconds,
        peers=peers,
        since=since,
        shows=since + shows,
        step_count=step_count,
        cost=costly,
    )


def _level(costly: CostlyRank, excess: Floats) -> float:
    """Return the excess in seconds from which a step is slow.

    It is half of the bucket excess, if known.
    """
    rank_work, peer_work = costly.work
    usual = float(excess.mean()) if math.isnan(rank_work) else rank_work - peer_work
    return max(0.0, usual / 2)


def _shows(excess: Floats, level: float) -> tuple[Integers, int]:
    """Return the slow steps (indices), and the number of steps if it is slow occasionally.

    If most steps are slow, the result is all indices and 0.
    """
    if float(np.median(excess)) >= level:
        return np.arange(len(excess)), 0
    return np.flatnonzero(excess >= 2 * level), len(excess)


def _since(steps: Integers, excess: Floats, costly: CostlyRank) -> int:
    """Return the step (index) from which its excess reaches its average.

    The step is within the span in which it began, and maximises the sum of the excess less half of
    its average. Excess 0, 0, 1, 1 -> less a half -0.5, -0.5, 0.5, 0.5, sums from the end 0, 0.5, 1,
    0.5 -> 2.
    """
    first = min(int(np.searchsorted(steps, costly.since)), len(steps) - 1)
    low, high = np.searchsorted(steps, costly.span)
    if costly.span[0] < steps[0] or high <= low:
        return first
    beyond = excess[low:] - _level(costly, excess[first:])
    sums = np.cumsum(beyond[::-1])[::-1]
    return int(low + np.argmax(sums[: high - low + 1]))
