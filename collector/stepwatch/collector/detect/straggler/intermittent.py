"""Ranks that are slow only in some steps, again and again, and far more often than by chance."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, exceeds
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.tails import at_least
from stepwatch.signals.arrays import FloatMatrix, Integers, Mask, MaskMatrix


def intermittent(steps: EvaluatedSteps, named: set[int], limits: Thresholds) -> list[SlowRank]:
    """Return ranks that are repeatedly far slower than their peers and themselves in some steps.

    All work counts, whatever the phase: a rank that loses its processor loses it anywhere. Ranks in
    `named` are left out.
    """
    longest = max(limits.intermittent_spans)
    if len(steps.rows) < min(limits.intermittent_spans):
        return []
    if set(_often_far(_all_work(steps, longest), limits).tolist()) <= named:
        return []
    slow = _stands_out(steps, longest, limits)
    for span in limits.intermittent_spans:
        part = slow[-span:]
        ranks = np.flatnonzero(_too_often(part, limits)) if len(part) == span else _NOBODY
        if len(ranks) and len(ranks := np.setdiff1d(ranks, list(named))):
            return _repeated(steps, ranks, span, limits)
    return []


def _often_far(self_seconds: FloatMatrix, limits: Thresholds) -> Integers:
    """Return ranks that often work far longer than they usually do; the others cannot be slow.

    Few ranks are ever so far from their shortest step, and the usual time is computed only for
    them.
    """
    ratio = limits.intermittent_ratio
    ranks = np.flatnonzero(self_seconds.max(axis=0) >= ratio * self_seconds.min(axis=0))
    self_seconds = self_seconds[:, ranks]
    is_far = self_seconds >= ratio * _usual(self_seconds, limits)
    return np.asarray(ranks[is_far.sum(axis=0) >= limits.intermittent_episodes])


def _all_work(steps: EvaluatedSteps, newest: int) -> FloatMatrix:
    """Return the self time (steps, ranks) in all phases together."""
    total = steps.self_time(WORK[0], newest).copy()
    for phase in WORK[1:]:
        total += steps.self_time(phase, newest)
    return total


_NOBODY = np.zeros(0, dtype=np.int64)


def _usual(self_seconds: FloatMatrix, limits: Thresholds) -> FloatMatrix:
    """Return each rank's usual self time, (1, ranks): a low quantile over its steps."""
    index = int(limits.intermittent_usual_quantile * (len(self_seconds) - 1))
    return np.partition(self_seconds, index, axis=0)[index : index + 1]


def _stands_out(steps: EvaluatedSteps, newest: int, limits: Thresholds) -> MaskMatrix:
    """Return where (step, rank) works far longer than its peers, and than in its other steps."""
    self_seconds = _all_work(steps, newest)
    peers = steps.peers(self_seconds, *WORK)
    longest = steps.step_seconds[-newest:]
    excess = np.maximum(self_seconds - peers, 0.0).max(axis=1)
    seconds = np.maximum(np.median(longest), longest - excess)
    ratio, excess_ratio = limits.intermittent_ratio, limits.intermittent_excess_ratio
    return exceeds(
        self_seconds, np.maximum(peers, _usual(self_seconds, limits)), seconds, ratio, excess_ratio
    )


def _too_often(slow: MaskMatrix, limits: Thresholds) -> Mask:
    """Return ranks with more slow steps than the other ranks' rate explains, spread and recent."""
    span, ranks = slow.shape
    counts = slow.sum(axis=0)
    began = slow.copy()
    began[1:] &= ~slow[:-1]
    since = np.argmax(slow[::-1], axis=0)
    gap = limits.intermittent_gap * span / np.maximum(counts, 1)
    named = (began.sum(axis=0) >= limits.intermittent_episodes) & (since <= gap) & (ranks > 1)
    for count in np.unique(counts[named]).tolist():
        other_hits, cells = int(counts.sum()) - count, span * (ranks - 1)
        rate = max(limits.intermittent_usual_rate, (other_hits + 1) / (cells + 1))
        if at_least(count, span, rate) * ranks > limits.intermittent_chance:
            named &= counts != count
    return np.asarray(named)


def _repeated(
    steps: EvaluatedSteps, ranks: Integers, span: int, limits: Thresholds
) -> list[SlowRank]:
    """Return each rank with the phase in which its slow steps lose most."""
    part = steps.around(ranks)
    slow = _stands_out(part, 0, limits)
    owns = [part.self_time(phase) for phase in WORK]
    peer_seconds = [
        part.peers(self_seconds, phase) for self_seconds, phase in zip(owns, WORK, strict=True)
    ]
    slow_ranks = []
    for rank, column in zip(
        ranks.tolist(), np.searchsorted(part.ranks, ranks).tolist(), strict=True
    ):
        shows = np.flatnonzero(slow[:, column])
        inside = shows[shows >= len(slow) - span]
        lost = [
            float((self_seconds - peers)[inside, column].sum())
            for self_seconds, peers in zip(owns, peer_seconds, strict=True)
        ]
        worst = int(np.argmax(lost))
        most = limits.intermittent_gap * span / max(1, len(inside))
        gaps = np.flatnonzero(np.diff(shows) > most)
        since = int(shows[gaps[-1] + 1 if len(gaps) else 0])
        rank_seconds, peers = owns[worst][:, column], peer_seconds[worst][:, column]
        slow_ranks.append(
            SlowRank(
                rank=rank,
                phase=WORK[worst],
                self_seconds=rank_seconds,
                peers=peers,
                since=since,
                shows=inside,
                step_count=span,
            )
        )
    return slow_ranks
