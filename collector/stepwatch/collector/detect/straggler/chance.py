"""Whether a slow rank may be chance: work that differs by nature is nobody's fault.

Lengths of two values, or anything else that makes a rank's steps long now and then, makes those of
the other ranks long as often. How often they exceed their peers says how likely it is that this
rank does so in all of its newest steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from stepwatch.collector.detect.straggler.evidence.costly import DAY_SECONDS
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, seconds_without
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import FloatMatrix, Floats

_FEW_RANKS = 64
_LEAST_KNOWN = 0.05
_MAY_BE_HIDDEN = 0.2
"""Share of the steps of a slow rank that may not be long: a long one of its peer hides it. Where
more are not, it may draw lengths that nobody has drawn before: how long a step is says nothing."""
LOOK_SECONDS = 1.0
"""A job is looked at no more often (`runtime.service`), however short its steps are: a day has as
many chances of a false alarm as it has looks, or steps where those are fewer."""


def beyond_chance(
    slow: SlowRank, steps: EvaluatedSteps, limits: Thresholds, named: Collection[int] = ()
) -> bool:
    """Whether other ranks are so far above their peers too rarely for chance to explain `slow`.

    Those `named` with it do not count as long as they are the fewer: a node may be slow as a whole.
    A rank alone in its stage has nobody to be exchanged with: it exceeds its own baseline.
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
    """Whether the tokens that `slow` reports explain more than half of what it takes longer than
    its peers: a rank that has more to do is not slow.

    2.2 times as long for 1.9 times the tokens, of which 0.3 of 1.2 are left, is not; 3 times for
    1.5 times the tokens is. Fewer tokens make nobody slower, and more than `_MOST_TOKENS` times as
    many are a lie.
    """
    if slow.phase not in _OF_TOKENS:
        return False
    stage = steps.window.stage
    peers = np.flatnonzero((stage == stage[slow.rank]) & (np.arange(len(stage)) != slow.rank))
    tokens = steps.window.plane("tokens", steps.rows[slow.shows]).astype(np.float64)
    peer_tokens = np.median(tokens[:, peers], axis=1)  # NaN where one of them is
    more = np.divide(
        tokens[:, slow.rank], peer_tokens, out=np.ones(len(tokens)), where=peer_tokens > 0
    )
    more = np.where(more <= _MOST_TOKENS, np.fmax(more, 1.0), 1.0)
    rank_seconds, usual = slow.self_seconds[slow.shows], slow.peers[slow.shows]
    return bool(2 * (rank_seconds - more * usual).sum() < (rank_seconds - usual).sum())


_OF_TOKENS = frozenset({"forward", "backward"})
"""Phases that grow with the tokens."""
_MOST_TOKENS = 4.0
"""Lengths of sequences in one step differ by a factor of three where they are drawn evenly."""


def _usual_seconds(slow: SlowRank, steps: EvaluatedSteps) -> float:
    """Seconds of a step without what the slow rank works longer than its peers.

    A job that is young may have no step without, and noise grows with what ranks work, not with how
    long they wait for another: of steps of 5 s of which one rank makes 4.5 s, it is half a second.
    """
    return float(np.median(seconds_without(slow.rank, steps)))


def _log_rarer(level: float, most: float, step_seconds: float) -> float:
    """Logarithm of how many times more rarely a step is far by `level` than by the `most` that was
    seen, where that is less: as in the heaviest tails that have been seen, half as often by twice
    as much. Nothing is known of less than a twentieth of a step.

    Of steps of a second that were up to 0.2 s longer, those of 2 s are ten times as rare.
    """
    return math.log(max(1.0, level / max(most, _LEAST_KNOWN * step_seconds)))


def far_alone(excess: FloatMatrix, level: float, limits: Thresholds) -> tuple[int, Floats]:
    """How often ranks are above their peers by `level`, and by how much in all other steps and in
    these (cells,), given the `excess` (steps, ranks).

    Work that differs by nature makes a rank's steps long one by one. A rank whose steps are in a
    row was slow itself for a while: slowness that moves from rank to rank is no chance. Such a row
    of `least_steps` and more is left out.
    """
    is_far = excess >= level
    rows = np.zeros_like(is_far)
    if len(is_far) >= limits.least_steps:
        is_full_run = np.lib.stride_tricks.sliding_window_view(is_far, limits.least_steps, axis=0)
        for offset in range(limits.least_steps):
            rows[offset : offset + len(is_full_run)] |= is_full_run.all(axis=-1)
    return int((is_far & ~rows).sum()), np.asarray(excess[~rows])


def _other_excess(slow: SlowRank, steps: EvaluatedSteps, named: Collection[int]) -> FloatMatrix:
    """How far the other ranks are above their peers in the phase (steps, ranks): all ranks where
    they are few, else those of its stage, which are enough."""
    part = steps if len(steps.ranks) <= _FEW_RANKS else steps.around(np.array([slow.rank]))
    self_seconds = part.self_time(slow.phase)
    excess = self_seconds - part.peers(self_seconds, slow.phase)
    left_out = np.isin(part.ranks, [*named, slow.rank])
    if 2 * left_out.sum() > len(part.ranks):
        left_out = part.ranks == slow.rank
    return np.asarray(excess[:, ~left_out])


def log_chance(hits: int, steps: int, far_cells: int, cells: int) -> float:
    """Logarithm of the chance that a rank is far above its peers in `hits` of its `steps`, where
    the others are in `far_cells` of their `cells`.

    How often that happens is known from those cells only: of none in 16, seven in a row are no
    wonder of 17**-7 but one of 1/18 * 2/19 * ... * 7/24.
    """
    draws = np.arange(hits)
    chance = float(np.log((far_cells + 1.0 + draws) / (cells + 2.0 + draws)).sum())
    ways = math.lgamma(steps + 1) - math.lgamma(hits + 1) - math.lgamma(steps - hits + 1)
    return min(0.0, chance + ways)
