"""Ranks that are done while other ranks continue: their data is over, so no step is expected.

With uneven inputs (DDP's join, loaders with unequal length) a rank without data takes part in the
other ranks' collectives, or has ended, and makes no more steps.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.state.tracker import TrackedAttempt
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE, Agents
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import LifecycleEvent, Phase, ProcessState

LEAST_STEPS = 4
"""A rank that meets its peers in each step is never this far behind, even with unsent steps."""
LEAST_SECONDS, USUAL_STEPS = 5.0, 4.0
"""A rank that trains alone for a while changes its line more often than this."""
LATE_SECONDS = 5.0
"""Permitted agent delay: seconds on a busy host, and a number of flushes."""
_LIVES = (ProcessState.RUNNING, ProcessState.SLEEPING, ProcessState.UNINTERRUPTIBLE)


def done_from(attempt: TrackedAttempt, received_s: float) -> dict[int, int]:
    """Return the first step not expected from each rank that is done.

    A rank is done if it finished, or if its process lives outside the step phases while other ranks
    made `LEAST_STEPS` more steps. `received_s` is the newest agent report on the collector's
    monotonic clock: a rank without a recent report is not evaluated.
    """
    ranks, history = attempt.tracker(Ranks), attempt.tracker(Steps).history
    rows = ranks.rows
    if not len(history) or not len(rows):
        return {}
    behind = ranks.reported & (rows["step"] + LEAST_STEPS < history.first + len(history))
    if not behind.any():
        return {}
    ended = attempt.tracker(LifecycleEvents).ended
    finished = [rank for rank, event in ended.items() if event is LifecycleEvent.FINISH]
    over = np.isin(np.arange(len(rows)), finished)
    # A slow flush interval does not make its ranks unobserved.
    seen_since_s = received_s - attempt.tracker(Agents).stale_after(UNKNOWN_NODE, LATE_SECONDS)
    done_ranks = np.flatnonzero(behind & (over | _stands(ranks, history.baseline(), seen_since_s)))
    return {rank: int(rows["step"][rank]) for rank in done_ranks.tolist()}


def unwatched_ranks(attempt: TrackedAttempt) -> frozenset[int]:
    """Return the ranks that reported nothing while other ranks made steps."""
    reported = attempt.tracker(Ranks).reported
    if reported.all() or not reported.any() or not len(attempt.tracker(Steps).history):
        return frozenset()
    ended = attempt.tracker(LifecycleEvents).ended
    return frozenset(np.flatnonzero(~reported).tolist()) - ended.keys()


def expected_ranks(steps: Integers, watched: int, done_steps: dict[int, int]) -> Integers:
    """Return how many of the `watched` ranks should report each of `steps`; shape (steps,).

    Four ranks, one done from step 80 on: 4 for step 79, 3 for step 80.
    """
    return np.asarray(watched - np.searchsorted(sorted(done_steps.values()), steps, side="right"))


def _stands(ranks: Ranks, usual_seconds: float, seen_since_s: float) -> Mask:
    """Return the ranks (world,) that live, are observed, and have long been between steps."""
    rows = ranks.rows
    long = LEAST_SECONDS
    if not math.isnan(usual_seconds):
        long = max(long, USUAL_STEPS * usual_seconds)
    since = (rows["time_ns"].astype(np.int64) - rows["since_ns"].astype(np.int64)) / NANOSECONDS
    outside = (rows["phase"] == Phase.OTHER) & (rows["since_ns"] > 0) & (since >= long)
    with np.errstate(invalid="ignore"):
        observed = ranks.received_monotonic_s >= seen_since_s
    return np.asarray(outside & observed & np.isin(rows["process_state"], _LIVES))
