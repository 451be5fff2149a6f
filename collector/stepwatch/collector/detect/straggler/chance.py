"""Whether a slow rank may be chance: naturally varying work is no rank's fault.

If sequence lengths, or anything else, make a rank's steps long occasionally, they do so as often on
the other ranks. The rate at which those exceed their peers gives the probability that this rank
does so in all its newest steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from stepwatch.collector.detect.straggler.evidence.costly import DAY_SECONDS
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, seconds_without
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.signals.arrays import FloatMatrix, Floats

_FEW_RANKS = 64
_LEAST_KNOWN = 0.05
_MAY_BE_HIDDEN = 0.2
"""Share of a slow rank's steps that may be short: a peer's long step may hide its own.

If more are short, it may draw lengths that no other rank has drawn before: the step duration then
shows nothing.
"""
LOOK_SECONDS = 1.0
"""Minimum interval between evaluations (`runtime.service`), however short the steps are.

A day has as many chances for a false alarm as evaluations, or as steps if those are fewer.
"""


def beyond_chance(
    slow: SlowRank, steps: EvaluatedSteps, limits: Thresholds, named: Collection[int] = ()
) -> bool:
    """Return whether other ranks exceed their peers too rarely for chance to explain `slow`.

    The `named` ranks do not count as long as they are a minority: a node may be slow as a whole. A
    rank alone in its stage has no interchangeable peer: it exceeds its own baseline.
    """
    if slow.rank in steps.stages.single_ranks:
        return True
    if more_tokens_explain(slow, steps):
        return False
    other_excess, rank_excess = _other_excess(slow, steps, named), slow.self_seconds - slow.peers
    if slow.step_count:
        level = float(np.median(rank_excess[slow.shows])) / 2
        far_count, excess = far_alone(other_excess, level, limits)
        return far_count <= limits.intermittent_peers_rate * len(excess)
    newest_excess = rank_excess[slow.since :]
    level = float(np.median(newest_excess)) / 2
    far_count, excess = far_alone(other_excess, level, limits)
    earlier_far, more = far_alone(
        rank_excess[: slow.since, None], level, limits
    )  # and before it began
    far_count, excess = far_count + earlier_far, np.append(excess, more)
    hits = int((newest_excess >= level).sum())
    seconds = max(float(np.median(steps.step_seconds)), LOOK_SECONDS)
    looks = DAY_SECONDS / seconds * len(steps.ranks) * len(WORK)
    least = math.log(max(1.0, looks / limits.false_alarms_a_day))
    rarer = 0.0
    if len(newest_excess) - hits <= _MAY_BE_HIDDEN * len(newest_excess):
        most = float(excess.max(initial=0.0))
        rarer = hits * _log_rarer(level, most, _usual_seconds(slow, steps))
    return rarer - log_chance(hits, len(newest_excess), far_count, len(excess)) >= least


def more_tokens_explain(slow: SlowRank, steps: EvaluatedSteps) -> bool:
    """Return whether the reported tokens explain more than half of the excess over the peers.

    A rank with more work is not slow. 2.2 times as long for 1.9 times the tokens leaves 0.3 of 1.2,
    and is not slow; 3 times as long for 1.5 times the tokens is. Fewer tokens make no rank slower,
    and more than `_MOST_TOKENS` times as many are invalid.
    """
    if slow.phase not in _OF_TOKENS:
        return False
    stage = steps.window.stage
    peers = np.flatnonzero((stage == stage[slow.rank]) & (np.arange(len(stage)) != slow.rank))
    tokens = steps.window.plane("tokens", steps.rows[slow.shows]).astype(np.float64)
    peer_tokens = np.median(tokens[:, peers], axis=1)  # NaN if one of them is NaN
    more = np.divide(
        tokens[:, slow.rank], peer_tokens, out=np.ones(len(tokens)), where=peer_tokens > 0
    )
    more = np.where(more <= _MOST_TOKENS, np.fmax(more, 1.0), 1.0)
    rank_seconds, usual = slow.self_seconds[slow.shows], slow.peers[slow.shows]
    return bool(2 * (rank_seconds - more * usual).sum() < (rank_seconds - usual).sum())


_OF_TOKENS = frozenset({"forward", "backward"})
"""Phases whose time grows with the tokens."""
_MOST_TOKENS = 4.0
"""Sequence lengths in one step differ by a factor of three if drawn evenly."""


def _usual_seconds(slow: SlowRank, steps: EvaluatedSteps) -> float:
    """Return the step's duration in seconds, less the slow rank's excess work over its peers.

    A young job may have no step without a slow rank. Noise grows with the ranks' work, not with
    their wait for another rank: in 5 s steps with one rank working 4.5 s longer, the result is half
    a second.
    """
    return float(np.median(seconds_without(slow.rank, steps)))


def _log_rarer(level: float, most: float, step_seconds: float) -> float:
    """Return the log factor by which excesses of `level` are rarer than the largest one seen.

    The factor is that of the heaviest tails seen so far: twice the excess is half as frequent. It
    is at least 1. `most` counts as at least a twentieth of a step, as nothing is known about
    smaller excesses. Worked example: in 1 s steps that were up to 0.2 s longer, an excess of 2 s is
    ten times as rare.
    """
    return math.log(max(1.0, level / max(most, _LEAST_KNOWN * step_seconds)))


def far_alone(excess: FloatMatrix, level: float, limits: Thresholds) -> tuple[int, Floats]:
    """Return how often ranks exceed their peers by `level`, and the counted excesses (cells,).

    `excess` is an array (steps, ranks). Naturally varying work makes a rank's steps long one by
    one. A rank with consecutive long steps was slow itself for a while: slowness that moves from
    rank to rank is no chance. Runs with `least_steps` or more steps are therefore left out.
    """
    is_far = excess >= level
    rows = np.zeros_like(is_far)
    if len(is_far) >= limits.least_steps:
        is_full_run = np.lib.stride_tricks.sliding_window_view(is_far, limits.least_steps, axis=0)
        for offset in range(limits.least_steps):
            rows[offset : offset + len(is_full_run)] |= is_full_run.all(axis=-1)
    return int((is_far & ~rows).sum()), np.asarray(excess[~rows])


def _other_excess(slow: SlowRank, steps: EvaluatedSteps, named: Collection[int]) -> FloatMatrix:
    """Return how far the other ranks are above their peers in the phase (steps, ranks).

    If the job has few ranks, all of them count, else only those in the stage, which are enough.
    """
    part = steps if len(steps.ranks) <= _FEW_RANKS else steps.around(np.array([slow.rank]))
    self_seconds = part.self_time(slow.phase)
    excess = self_seconds - part.peers(self_seconds, slow.phase)
    left_out = np.isin(part.ranks, [*named, slow.rank])
    if 2 * left_out.sum() > len(part.ranks):
        left_out = part.ranks == slow.rank
    return np.asarray(excess[:, ~left_out])


def log_chance(hits: int, steps: int, far_cells: int, cells: int) -> float:
    """Return the log probability that a rank is far above its peers in `hits` of its `steps`.

    The others are far above theirs in `far_cells` of their `cells`, and only those cells show the
    rate. With none in 16, the probability of seven in a row is not 17**-7 but 1/18 * 2/19 * ... *
    7/24.
    """
    draws = np.arange(hits)
    chance = float(np.log((far_cells + 1.0 + draws) / (cells + 2.0 + draws)).sum())
    ways = math.lgamma(steps + 1) - math.lgamma(hits + 1) - math.lgamma(steps - hits + 1)
    return min(0.0, chance + ways)
