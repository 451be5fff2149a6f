"""The early look: ranks that are far slower than their peers in the newest steps, beyond chance.

Naturally varying work is no rank's fault. If sequence lengths, or anything else, make a rank's
steps long occasionally, they do so as often on the other ranks. The rate at which those exceed
their peers gives the probability that this rank does so in all its newest steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.steps import (
    FEWEST_CERTAIN,
    exceeds,
    first_of_run,
    is_certain,
    is_persistent,
)
from stepwatch.collector.detect.straggler.costly import DAY_SECONDS
from stepwatch.collector.detect.straggler.steps import (
    EvaluatedSteps,
    SlowRank,
    seconds_without,
)
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.tails import log_chance
from stepwatch.signals.arrays import FloatMatrix, Floats, Mask, MaskMatrix

_MAY_COME_TWICE = frozenset({"data", "other"})
"""Phases in which a rank may be long in two consecutive steps for an unrelated reason."""
_FEWEST_BEFORE = 4
"""Minimum number of steps before the first slow one for its usual duration to be known."""


class _Comparison(NamedTuple):
    """The newest steps in a phase: self time, its reference, and where a rank is slow.

    All are (steps, ranks).
    """

    self_seconds: FloatMatrix
    peers: FloatMatrix
    slow: MaskMatrix


def slow_phases(steps: EvaluatedSteps, phases: Sequence[str], limits: Thresholds) -> list[str]:
    """Return those of `phases` in which a rank is slow in the newest step: nearly always none.

    In no other phase has `persistent` a result. All are compared at once, a row for each.
    """
    if len(steps.stages.single_ranks):  # compared with a baseline, which each phase has
        return [phase for phase in phases if _compared(steps, phase, 1, limits).slow.any()]
    self_seconds = np.concatenate([steps.self_time(phase, 1) for phase in phases])
    busy = [part for phase in phases if (part := steps.busy(phase, 1)) is not None]
    slow = _slow(steps, phases, self_seconds, np.concatenate(busy) if busy else None, limits)[1]
    return [phases[row] for row in np.flatnonzero(slow.any(axis=1)).tolist()]


def persistent(steps: EvaluatedSteps, phase: str, limits: Thresholds) -> list[SlowRank]:
    """Return ranks that exceed their peers in `phase` in most newest steps, or certainly in few."""
    recent = _compared(steps, phase, limits.window_steps, limits)
    seconds = steps.step_seconds[-len(recent.slow) :]
    slow = recent.slow.T
    certain = is_certain(slow, recent.self_seconds.T, recent.peers.T, seconds)
    if phase in _MAY_COME_TWICE:
        certain &= recent.slow[-3:].all(axis=0) & (len(recent.slow) > FEWEST_CERTAIN)
    certain[steps.stages.single_ranks] = False  # no peer shows whether it is chance
    named = is_persistent(slow, limits.window_steps, limits.least_steps) | certain
    ranks = np.flatnonzero(named)
    if not len(ranks):
        return []
    part = steps.around(ranks)
    compared = _compared(part, phase, 0, limits)
    slow_ranks = []
    for rank, column in zip(ranks.tolist(), np.searchsorted(part.ranks, ranks), strict=True):
        self_seconds, peers = compared.self_seconds[:, column], compared.peers[:, column]
        since = _since(compared.slow[:, column], self_seconds, peers, limits)
        shows = np.arange(since, len(self_seconds))
        slow_ranks.append(SlowRank(rank, phase, self_seconds, peers, since, shows))
    return slow_ranks


def _compared(steps: EvaluatedSteps, phase: str, newest: int, limits: Thresholds) -> _Comparison:
    """Compare the ranks with their peers in the `newest` steps; 0 means all.

    Device work has no host noise, so a smaller excess is enough for it.
    """
    self_seconds, busy = steps.self_time(phase, newest), steps.busy(phase, newest)
    return _Comparison(self_seconds, *_slow(steps, (phase,), self_seconds, busy, limits))


def _slow(
    steps: EvaluatedSteps,
    phases: Sequence[str],
    self_seconds: FloatMatrix,
    busy: FloatMatrix | None,
    limits: Thresholds,
) -> tuple[FloatMatrix, MaskMatrix]:
    """Return the peers' time, and where a rank is slow: (steps, ranks), or (phases, ranks).

    With several phases, `self_seconds` and `busy` are the newest step's in each.
    """
    least = limits.least_excess_ratio
    seconds = steps.step_seconds[-len(self_seconds) // len(phases) :]
    peers = steps.peers(self_seconds, *phases)
    slow = exceeds(self_seconds, peers, seconds, limits.least_ratio, least)
    if busy is not None:
        usual = steps.peers(busy, *phases)
        slow |= exceeds(busy, usual, seconds, limits.least_device_ratio, least)
    return peers, slow


def _since(slow: Mask, self_seconds: Floats, peers: Floats, limits: Thresholds) -> int:
    """Return the index of the first slow step: going back until two steps in a row are not slow.

    A step counts if its excess is at least half of the newest steps' median excess, so a noisy step
    just before does not move the beginning.
    """
    excess = self_seconds - peers
    level = float(np.median(excess[-limits.window_steps :])) / 2
    return _with_delayed_peers(self_seconds, first_of_run(slow & (excess >= level)), level)


def _with_delayed_peers(self_seconds: Floats, since: int, level: float) -> int:
    """Return `since`, or the step before if the peers' chance delay hid it.

    This applies if the rank took as long there as afterwards: the peers' long step hides the first
    slow step, but not from the rank's own earlier steps. Own 1, 1, 1, 5, 5 next to peers 1, 1, 1,
    4, 1 and level 2: since 4 becomes 3.
    """
    if since < _FEWEST_BEFORE:
        return since
    usual = float(np.median(self_seconds[: since - 1]))
    least = max(level, (float(np.median(self_seconds[since:])) - usual) / 2)
    return since - 1 if self_seconds[since - 1] - usual >= least else since


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
