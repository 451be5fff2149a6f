"""Durations of a step on its device, from when each boundary was enqueued and when it was passed.

Between two boundaries the compute stream spends D, and the host H before it enqueues the second.
When it enqueued the first, the device had work for L more: it lay that far behind. What the host
enqueues after the first boundary keeps the device busy only from when it comes, so the device has
nothing to do for at most H - L of D.

              H    L    D    idle
    waiting for data, nothing enqueued     100    0  100     100
    the host launches far ahead              2   30   25       0
    the host is late with small kernels     40    0   41      40
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwatch.hooks.recorder.timeline import BUCKETS, COLLECTIVE


class Spans(NamedTuple):
    """All in ns. `device` and `idle` by bucket; `collectives` by key: timed, sum, longest, first.

    `first` is the device's moment at the first timed call.
    """

    device: list[int]
    idle: list[int]
    collectives: dict[tuple[int, int], list[int]]


def monotone(positions: Sequence[int]) -> list[int]:
    """Positions that never fall: boundaries on two streams may pass in another order."""
    highest = positions[0]
    found = []
    for position in positions:
        highest = max(highest, position)
        found.append(highest)
    return found


def idle_of(host: int, lead: int, device: int) -> int:
    """At most how much of `device` the device had nothing enqueued; see the table above."""
    return min(max(host - max(lead, 0), 0), device)


def spans_of(
    moments: Sequence[int],
    positions: Sequence[int],
    buckets: Sequence[int],
    keys: Sequence[tuple[int, int] | None],
    offset: int,
) -> Spans:
    """Durations between n + 1 boundaries of a step, of which the last one ends it.

    `moments` (n + 1) are host ns, `positions` (n + 1) device ns that never fall, `buckets` (n)
    begin at each boundary but the last, `keys` (n) tell collectives apart, `offset` is that of the
    anchor.
    """
    device, idle = [0] * BUCKETS, [0] * BUCKETS
    collectives: dict[tuple[int, int], list[int]] = {}
    moment, position = moments[0], positions[0]
    for at, bucket in enumerate(buckets, 1):
        spent = positions[at] - position
        device[bucket] += spent
        idle[bucket] += idle_of(moments[at] - moment, offset + position - moment, spent)
        if bucket == COLLECTIVE and (key := keys[at - 1]) is not None:
            known = collectives.setdefault(key, [0, 0, 0, position])
            known[0] += 1
            known[1] += spent
            known[2] = max(known[2], spent)
        moment, position = moments[at], positions[at]
    return Spans(device, idle, collectives)
