"""A rank that accumulated evidence names, as it looks in the newest steps."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.straggler.evidence.costly import CostlyRank
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank
from stepwatch.signals.arrays import Floats, Integers


def accumulated(costly: CostlyRank, steps: EvaluatedSteps) -> SlowRank:
    """`costly` with its work and its peers' in the evaluated steps.

    Where most of its steps are not slow by half of what all are on average, it is slow now and
    then: it shows in those that are.
    """
    part = steps.around(np.array([costly.rank]))
    at = int(np.searchsorted(part.ranks, costly.rank))
    own = part.own(costly.phase)
    peers = part.peers(own, costly.phase)[:, at]
    since = _since(part.steps, own[:, at] - peers, costly)
    excess = (own[:, at] - peers)[since:]
    level = max(0.0, float(excess.mean()) / 2)
    shows, of = since + np.arange(len(excess)), 0
    if float(np.median(excess)) < level:
        shows, of = since + np.flatnonzero(excess >= 2 * level), len(excess)
    return SlowRank(
        rank=costly.rank,
        phase=costly.phase,
        own=own[:, at],
        peers=peers,
        since=since,
        shows=shows,
        of=of,
        cost=costly,
    )


def _since(steps: Integers, excess: Floats, costly: CostlyRank) -> int:
    """The step (index) from which on it exceeds its peers by what it does on average, within the
    span in which it began: where the sum of what exceeds half of that is the largest.

    Excess 0, 0, 1, 1 -> less a half -0.5, -0.5, 0.5, 0.5, sums from the end 0, 0.5, 1, 0.5 -> 2.
    """
    first = min(int(np.searchsorted(steps, costly.since)), len(steps) - 1)
    low, high = np.searchsorted(steps, costly.span)
    if costly.span[0] < steps[0] or high <= low:
        return first
    beyond = excess[low:] - float(excess[first:].mean()) / 2
    sums = np.cumsum(beyond[::-1])[::-1]
    return int(low + np.argmax(sums[: high - low + 1]))
