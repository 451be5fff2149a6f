"""Ranks that are slow in some steps only, again and again, and far more often than by chance."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.chance import at_least
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, exceeds
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import FloatMatrix, Integers, Mask, MaskMatrix


def intermittent(steps: EvaluatedSteps, named: set[int], limits: Thresholds) -> list[SlowRank]:
    """Ranks that are far slower than their peers and than themselves, in some steps, repeatedly.

    All work counts, whatever the phase: a rank that loses its processor loses it anywhere. Ranks
    that are `named` already are left out.
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


def _often_far(own: FloatMatrix, limits: Thresholds) -> Integers:
    """Ranks that often work far longer than they usually do; the others cannot be slow.

    Few ranks are ever so far from their shortest step, and only of these the usual one is sought.
    """
    ratio = limits.intermittent_ratio
    ranks = np.flatnonzero(own.max(axis=0) >= ratio * own.min(axis=0))
    own = own[:, ranks]
    far = own >= ratio * _usual(own, limits)
    return np.asarray(ranks[far.sum(axis=0) >= limits.intermittent_episodes])


def _all_work(steps: EvaluatedSteps, newest: int) -> FloatMatrix:
    """Self time (steps, ranks) in all phases together."""
    total = steps.own(WORK[0], newest).copy()
    for phase in WORK[1:]:
        total += steps.own(phase, newest)
    return total


_NOBODY = np.zeros(0, dtype=np.int64)


def _usual(own: FloatMatrix, limits: Thresholds) -> FloatMatrix:
    """What the self time of each rank usually is, (1, ranks): a low quantile of its steps."""
    at = int(limits.intermittent_usual_quantile * (len(own) - 1))
    return np.partition(own, at, axis=0)[at : at + 1]


def _stands_out(steps: EvaluatedSteps, newest: int, limits: Thresholds) -> MaskMatrix:
    """Where (step, rank) works far longer than its peers, and than itself in its other steps."""
    own = _all_work(steps, newest)
    peers = steps.peers(own, *WORK)
    longest = steps.step_seconds[-newest:]
    excess = np.maximum(own - peers, 0.0).max(axis=1)
    seconds = np.maximum(np.median(longest), longest - excess)
    ratio, excess_ratio = limits.intermittent_ratio, limits.intermittent_excess_ratio
    return exceeds(own, np.maximum(peers, _usual(own, limits)), seconds, ratio, excess_ratio)


def _too_often(slow: MaskMatrix, limits: Thresholds) -> Mask:
    """Ranks with more slow steps than chance gives at the other ranks' rate, spread and recent."""
    span, ranks = slow.shape
    counts = slow.sum(axis=0)
    began = slow.copy()
    began[1:] &= ~slow[:-1]
    since = np.argmax(slow[::-1], axis=0)
    gap = limits.intermittent_gap * span / np.maximum(counts, 1)
    named = (began.sum(axis=0) >= limits.intermittent_episodes) & (since <= gap) & (ranks > 1)
    for count in np.unique(counts[named]).tolist():
        others, cells = int(counts.sum()) - count, span * (ranks - 1)
        rate = max(limits.intermittent_usual_rate, (others + 1) / (cells + 1))
        if at_least(count, span, rate) * ranks > limits.intermittent_chance:
            named &= counts != count
    return np.asarray(named)


def _repeated(
    steps: EvaluatedSteps, ranks: Integers, span: int, limits: Thresholds
) -> list[SlowRank]:
    """Each rank with the phase that its slow steps lose most in."""
    part = steps.around(ranks)
    slow = _stands_out(part, 0, limits)
    owns = [part.own(phase) for phase in WORK]
    held = [part.peers(own, phase) for own, phase in zip(owns, WORK, strict=True)]
    found = []
    for rank, at in zip(ranks.tolist(), np.searchsorted(part.ranks, ranks).tolist(), strict=True):
        shows = np.flatnonzero(slow[:, at])
        inside = shows[shows >= len(slow) - span]
        lost = [
            float((own - peers)[inside, at].sum()) for own, peers in zip(owns, held, strict=True)
        ]
        worst = int(np.argmax(lost))
        most = limits.intermittent_gap * span / max(1, len(inside))
        gaps = np.flatnonzero(np.diff(shows) > most)
        since = int(shows[gaps[-1] + 1 if len(gaps) else 0])
        own, peers = owns[worst][:, at], held[worst][:, at]
        found.append(
            SlowRank(
                rank=rank,
                phase=WORK[worst],
                own=own,
                peers=peers,
                since=since,
                shows=inside,
                of=span,
            )
        )
    return found
