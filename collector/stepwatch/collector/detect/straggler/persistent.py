"""Ranks that are slow in one phase of nearly every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, exceeds
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.step_window import DEVICE
from stepwatch.signals.arrays import FloatMatrix, Floats, Mask, MaskMatrix, Vector

_MAY_COME_TWICE = frozenset({"data", "other"})
"""Phases in which a rank may be long in two consecutive steps for an unrelated reason."""
_FEWEST_BEFORE = 4
"""Minimum number of steps before the first slow one for its usual duration to be known."""


def worth_a_look(steps: EvaluatedSteps, phases: Sequence[str], limits: Thresholds) -> Sequence[str]:
    """Return the phases in which `persistent` may find a rank, from one check for all phases.

    On the devices' clock, or if a rank is alone in its stage, the result is all phases: each phase
    then has more references than the other ranks' same steps.
    """
    if steps.window.clock == DEVICE or len(steps.stages.single_ranks) or not phases:
        return phases
    # A rank that is slow in most of the newest steps, or certainly in few, is slow in the last one.
    phases = _slow_last(steps, phases, limits)
    if not phases:
        return phases
    newest = max(limits.window_steps, limits.certain_steps)
    owns = [steps.self_time(phase, newest) for phase in phases]
    self_seconds, count = np.concatenate(owns), len(owns[0])
    peers = steps.peers(self_seconds)
    seconds = steps.step_seconds[-newest:]
    slow = exceeds(self_seconds, peers, np.tile(seconds, len(phases)), *_usual_limits(limits))
    parts = (slice(start, start + count) for start in range(0, len(self_seconds), count))
    return [
        phase
        for phase, rows in zip(phases, parts, strict=True)
        if _named(steps, phase, slow[rows], self_seconds[rows], peers[rows], limits).any()
    ]


def _slow_last(steps: EvaluatedSteps, phases: Sequence[str], limits: Thresholds) -> Sequence[str]:
    """Return the phases in which a rank exceeds its peers in the newest step.

    The usual limits count, or the limits for certain findings.
    """
    self_seconds = np.concatenate([steps.self_time(phase, 1) for phase in phases])
    peers, seconds = steps.peers(self_seconds), np.tile(steps.step_seconds[-1:], len(phases))
    certain = limits.certain_ratio, limits.certain_excess_ratio
    slow = exceeds(self_seconds, peers, seconds, *_usual_limits(limits))
    slow |= exceeds(self_seconds, peers, seconds, *certain)
    return [phases[index] for index in np.flatnonzero(slow.any(axis=1)).tolist()]


def persistent(steps: EvaluatedSteps, phase: str, limits: Thresholds) -> list[SlowRank]:
    """Return ranks that exceed their peers in `phase` in most newest steps, or certainly in few."""
    newest = max(limits.window_steps, limits.certain_steps)
    self_seconds = steps.self_time(phase, newest)
    peers = steps.peers(self_seconds, phase)
    slow = _is_slow(steps, phase, self_seconds, peers, limits)
    named = _named(steps, phase, slow, self_seconds, peers, limits)
    if not named.any():
        return []
    ranks = np.flatnonzero(named)
    part = steps.around(ranks)
    self_seconds = part.self_time(phase)
    peers = part.peers(self_seconds, phase)
    slow = _is_slow(part, phase, self_seconds, peers, limits)
    slow_ranks = []
    for rank, column in zip(
        ranks.tolist(), np.searchsorted(part.ranks, ranks).tolist(), strict=True
    ):
        since = _since(slow[:, column], self_seconds[:, column], peers[:, column], limits)
        shows = np.arange(since, len(self_seconds))
        slow_ranks.append(
            SlowRank(
                rank=rank,
                phase=phase,
                self_seconds=self_seconds[:, column],
                peers=peers[:, column],
                since=since,
                shows=shows,
            )
        )
    return slow_ranks


def _named(
    steps: EvaluatedSteps,
    phase: str,
    slow: MaskMatrix,
    self_seconds: FloatMatrix,
    peers: FloatMatrix,
    limits: Thresholds,
) -> Mask:
    """Return ranks that are slow in most of the newest steps, or certainly in few."""
    least = [
        (limits.certain_steps, 0.0),
        (limits.certain_long_steps, limits.certain_long_seconds),
    ]
    if phase not in _MAY_COME_TWICE:
        least.append((limits.certain_few_steps, limits.certain_few_seconds))
    seconds = steps.step_seconds[-len(self_seconds) :]
    certain = _is_certain(self_seconds, peers, seconds, least, limits)
    if len(steps.stages.single_ranks):  # no peer shows whether it is chance
        least = [least[0], (limits.certain_long_steps, limits.certain_alone_seconds)]
        certain_limits = replace(
            limits,
            certain_ratio=limits.certain_alone_ratio,
            certain_excess_ratio=limits.certain_alone_excess_ratio,
        )
        single_ranks = steps.stages.single_ranks
        certain[single_ranks] = _is_certain(self_seconds, peers, seconds, least, certain_limits)[
            single_ranks
        ]
    return _is_persistent(slow, limits) | certain


def _usual_limits(limits: Thresholds) -> tuple[float, float]:
    return limits.least_ratio, limits.least_excess_ratio


def _is_slow(
    steps: EvaluatedSteps,
    phase: str,
    self_seconds: FloatMatrix,
    peers: FloatMatrix,
    limits: Thresholds,
) -> MaskMatrix:
    """Return where (step, rank) a rank exceeds its peers by enough to matter.

    The steps are the newest ones, as in `self_seconds`. Device work has no host noise, so a
    smaller excess is enough for it.
    """
    newest = len(self_seconds)
    seconds, least = steps.step_seconds[-newest:], limits.least_excess_ratio
    slow = exceeds(self_seconds, peers, seconds, *_usual_limits(limits))
    busy = steps.busy(phase, newest)
    if busy is None:
        return slow
    peers = steps.peers(busy, phase)
    return slow | exceeds(busy, peers, seconds, limits.least_device_ratio, least)


def _is_persistent(slow: MaskMatrix, limits: Thresholds) -> Mask:
    """Return ranks that are slow in the newest step and in most of the window."""
    recent = slow[-limits.window_steps :]
    return np.asarray((recent.sum(axis=0) >= limits.least_steps) & recent[-1])


def _is_certain(
    self_seconds: FloatMatrix,
    peers: FloatMatrix,
    step_seconds: Vector,
    least: Sequence[tuple[int, float]],
    limits: Thresholds,
) -> Mask:
    """Return ranks that are very slow in each of the newest few steps.

    Each pair in `least` is a step count and the seconds that these steps must take together.
    """
    very = exceeds(
        self_seconds, peers, step_seconds, limits.certain_ratio, limits.certain_excess_ratio
    )
    is_certain = np.zeros(self_seconds.shape[1], dtype=np.bool_)
    for steps, seconds in least:
        if len(very) >= steps and float(step_seconds[-steps:].sum()) >= seconds:
            is_certain |= very[-steps:].all(axis=0)
    return is_certain


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
