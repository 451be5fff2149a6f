"""The period in which a rank costs time, and the share, from its cost in each time bucket.

All arrays are (buckets,), oldest first: `net` seconds that the rank cost, out of `seconds` of
steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.statistics.tails import log_silence
from stepwatch.signals.arrays import Mask, Vector

_RAMP_BUCKETS = 8
_RAMP_BETTER = 0.6
"""A line must leave this much less residual than a change, over at least this many buckets."""
_MAY_BE_OVER_LOG = 1.0
"""A tail without cost that is this improbable during slowness is excluded from the cost."""


class Episode(NamedTuple):
    """The buckets from `begin` up to `end`, exclusive, in which a rank costs time.

    `shows` (buckets,) marks buckets that show it; none from `end` do. `log_over` is the logarithm
    of one over the probability of this silence if it still lasted.
    """

    begin: int
    end: int
    shows: Mask
    log_over: float


def episode(net: Vector, seconds: Vector) -> Episode:
    """Return the period in which a rank costs time.

    Worked example: net 0, 0, 5, 5, 5, 0, 0 in buckets of 10 s. Three of three buckets show it, so
    the next one would with a probability of 7/8 (Krichevsky, Trofimov 1981), and two that do not
    have a probability of 1/64.
    """
    begin = began(net, seconds)
    # The newest bucket has just begun: it counts by its filled part, and shows nothing alone.
    share = net[begin:] / np.maximum(seconds[begin:], seconds.mean() / 2)
    if share.max() <= 0.0:  # a rank that its peers exceed in every bucket costs nothing
        return Episode(begin, len(net), np.zeros(len(net), dtype=np.bool_), 0.0)
    is_far = share >= min(float(share.mean()), float(share.max()))
    shows = share >= float(share[is_far].mean()) / 2
    last = int(np.flatnonzero(shows)[-1])
    log_over = log_silence(
        shows[: last + 1], float(seconds[begin + last + 1 :].sum() / seconds.mean())
    )
    fell, sure = _fall(net[begin:], seconds[begin:])
    tail = float(seconds[begin + fell :].sum() / seconds.mean())
    noisy = min(sure, log_silence(shows[:fell], tail))
    if noisy > log_over and shows[:fell].any():
        last, log_over, shows[fell:] = fell - 1, noisy, False
    end = begin + last + 1 if log_over >= _MAY_BE_OVER_LOG else len(net)
    return Episode(begin, end, np.append(np.zeros(begin, np.bool_), shows), log_over)


def _fall(net: Vector, seconds: Vector) -> tuple[int, float]:
    """Return the bucket from which `net` is nothing rather than its earlier level.

    Noise may still show occasionally. The second value is the logarithm of how much more probable
    the fall is. Net 3, 1, 3, 2, 0, 1, -1, 0: less half of the mean its sum is the largest after the
    first four.
    """
    end = len(net)
    for _ in range(_FALL_ROUNDS):
        usual = net[:end].sum() / seconds[:end].sum()
        end = int(np.argmax(np.cumsum(net - usual / 2 * seconds))) + 1
    mean, tail = usual * seconds, net[end:]
    if end < _FEWEST_BUCKETS or not len(tail):
        return end, 0.0
    spread = float(np.square(net[:end] - mean[:end]).mean())
    spread = max(spread, float(np.square(tail).mean()), 1e-12)
    return end, float((mean[end:] * (mean[end:] - 2 * tail)).sum()) / (2 * spread)


_FALL_ROUNDS = 3
"""The mean follows from the end, and the end from the mean."""
_FEWEST_BUCKETS = 3
"""With fewer buckets their scatter is unknown."""


def began(net: Vector, seconds: Vector) -> int:
    """Return the bucket from which `net` exceeds its earlier level.

    There the sum of the excess over the mean, from the end, is the largest. The result is the first
    bucket if it was as large before. Net 0, 0, 1, 1 in equal buckets: less the mean -0.5, -0.5,
    0.5, 0.5, sums 0, 0.5, 1, 0.5 -> 2.
    """
    usual = net.sum() / seconds.sum()
    sums = np.cumsum((net - usual * seconds)[::-1])[::-1]
    begin = int(np.argmax(sums))
    rises = _rises_from(net / seconds, begin)
    if rises is not None:
        return rises
    if not begin:
        return 0
    share_before = net[:begin].sum() / seconds[:begin].sum()
    return 0 if share_before >= 0.5 * net[begin:].sum() / seconds[begin:].sum() else begin


def _rises_from(share: Vector, begin: int) -> int | None:
    """Return the bucket from which `share` (buckets,) grows steadily.

    The result is None unless that fits clearly better than a change at `begin`. Shares 0, 0, 1, 2,
    3, 4: a straight line from bucket 1 fits exactly.
    """
    count = len(share)
    if count < _RAMP_BUCKETS:
        return None
    parts = [share[:begin], share[begin:]] if begin else [share]
    change = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    buckets = np.arange(count)
    best, where = math.inf, 0
    for first in range(count - _RAMP_BUCKETS // 2):
        line = np.maximum(buckets - first, 0.0)
        residual = float(
            ((share - line * max(0.0, float(line @ share) / float(line @ line))) ** 2).sum()
        )
        if residual < best:
            best, where = residual, first
    return where if best < _RAMP_BETTER * change else None
