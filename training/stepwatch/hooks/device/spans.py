"""Durations in a step on its device, from each boundary's enqueue and pass times.

Between two boundaries the compute stream spends D, and the host H before it enqueues the second.
When the host enqueued the first, the device had work for another L: it was that far behind. Work
that the host enqueues after the first boundary keeps the device busy only from its arrival, so the
device is idle for at most H - L of D.

              H    L    D    idle
    waiting for data, nothing enqueued     100    0  100     100
    the host launches far ahead              2   30   25       0
    the host is late with small kernels     40    0   41      40
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from stepwatch.hooks.core import BUCKETS, COLLECTIVE


class Spans(NamedTuple):
    """All in ns. `device` and `idle` by bucket; `collectives` by key: timed, sum, longest, first.

    `first` is the device's moment at the first timed call.
    """

    device: list[int]
    idle: list[int]
    collectives: dict[tuple[int, int], list[int]]


def monotone(positions: list[int]) -> list[int]:
    """Return positions that never fall: boundaries on two streams may pass in another order."""
    in_order = sorted(positions) == positions
    return positions if in_order else list(itertools.accumulate(positions, max))


def spans_of(
    moments: Sequence[int],
    positions: Sequence[int],
    buckets: Sequence[int],
    keys: Sequence[tuple[int, int] | None],
    offset: int,
) -> Spans:
    """Return durations between a step's n + 1 boundaries; the last one ends the step.

    `moments` are host ns, `positions` device ns that never fall, `buckets` begin at each boundary,
    `keys` distinguish collectives; the bucket at the last boundary belongs to the next step.
    `offset` is the anchor's.
    """
    device, idle = [0] * BUCKETS, [0] * BUCKETS
    collectives: dict[tuple[int, int], list[int]] = {}
    moment, position = moments[0], positions[0]
    nexts = zip(moments[1:], positions[1:], buckets, keys, strict=False)
    for moment_after, position_after, bucket, key in nexts:
        spent = position_after - position
        device[bucket] += spent
        if bucket < COLLECTIVE:
            host, lead = moment_after - moment, offset + position - moment
            if lead > 0:
                host -= lead
            if host > 0:
                idle[bucket] += spent if host > spent else host
        elif bucket == COLLECTIVE and key is not None:
            sums = collectives.setdefault(key, [0, 0, 0, position])
            sums[0] += 1
            sums[1] += spent
            sums[2] = max(sums[2], spent)
        moment, position = moment_after, position_after
    return Spans(device, idle, collectives)
