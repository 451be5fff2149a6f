"""Which activities account for the time that a slow rank takes beyond a healthy peer."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from .activities import COMPUTING, Activity, ActivityKind
from .trace import Profile

LEAST_SHARE = 0.5
"""Share of the excess: an activity with less does not explain the slowness alone."""
LEAST_EXCESS = 0.03
"""Share of the peer's step: two healthy ranks differ by about so much in a few steps."""
ALIKE_RATIO = 1.3
"""Two ratios are alike if one is at most so many times the other."""
ALIKE_SHARE = 0.8
"""Share of the peer's time in operators whose ratios must be alike for a slow processor."""
_NOT_COMPARED = frozenset({ActivityKind.WAIT, ActivityKind.HOOKS})
Table = Mapping[Activity, float]
"""Seconds a step by activity."""


class Pattern(StrEnum):
    """How the excess is spread over activities."""

    NONE = "none"
    """The slow rank is not slower than its peer in the profiled steps."""
    ONE = "one activity"
    ALL = "all operators"
    """Every operator takes longer by the same factor."""
    SPREAD = "spread"


class Excess(NamedTuple):
    """One activity on both ranks, in seconds a step."""

    activity: Activity
    slow_s: float
    peer_s: float

    @property
    def seconds(self) -> float:
        """Return the slow rank's surplus in seconds a step."""
        return self.slow_s - self.peer_s

    @property
    def ratio(self) -> float:
        """Return the slow rank's time over the peer's; infinite where the peer has none."""
        return self.slow_s / self.peer_s if self.peer_s > 0 else math.inf


class Comparison(NamedTuple):
    """The comparison of a slow rank's profile with a peer's; times are seconds a step.

    `rows` are the activities with an excess, largest first. `ratio` is the common factor if the
    pattern is `ALL`, else NaN. `on_device` says whether the excess is the device's. `waits` says
    whether the slow rank's thread spends most of its excess off the processor.
    """

    slow: int
    peer: int
    excess_s: float
    pattern: Pattern
    rows: tuple[Excess, ...]
    ratio: float = math.nan
    on_device: bool = False
    waits: bool = False


def compare(slow: Profile, peer: Profile) -> Comparison:
    """Return which activities account for the slow rank's excess over its peer."""
    device_s, host_s = (_total_s(own) - _total_s(other) for own, other in _tables(slow, peer))
    on_device = device_s >= max(host_s, LEAST_EXCESS * peer.step_s)
    tables = (slow.device, peer.device) if on_device else (slow.host, peer.host)
    excess_s = device_s if on_device else host_s
    comparison = Comparison(slow.rank, peer.rank, excess_s, Pattern.NONE, (), on_device=on_device)
    if excess_s < LEAST_EXCESS * peer.step_s:
        return comparison
    rows = _rows(*map(_by_name, tables))
    ratio = _common_ratio(slow, peer, tables[1])
    # More calls of one operator leave the time of a call as it is.
    if not (ratio - 1) * _computing_s(tables[1]) >= LEAST_SHARE * excess_s:
        ratio = math.nan
    if not math.isnan(ratio):
        return comparison._replace(pattern=Pattern.ALL, rows=tuple(rows), ratio=ratio)
    waits = not on_device and _off_processor_s(slow) >= LEAST_SHARE * excess_s
    pattern = Pattern.ONE if rows[0].seconds >= LEAST_SHARE * excess_s else Pattern.SPREAD
    placed = (_placed(rows[0], _rows(*tables)), *rows[1:])
    return comparison._replace(pattern=pattern, rows=placed, waits=waits)


def _tables(slow: Profile, peer: Profile) -> Iterator[tuple[Table, Table]]:
    yield slow.device, peer.device
    yield slow.host, peer.host


def _total_s(table: Table) -> float:
    return sum(s for activity, s in table.items() if activity.kind not in _NOT_COMPARED)


def _by_name(table: Table) -> Table:
    """Return the seconds of each kind and name, in all places together."""
    seconds: dict[Activity, float] = defaultdict(float)
    for activity, duration_s in table.items():
        seconds[Activity(activity.kind, activity.name)] += duration_s
    return seconds


def _rows(slow: Table, peer: Table) -> list[Excess]:
    """Return the activities in which the slow rank takes longer, largest excess first."""
    rows = [
        Excess(activity, slow.get(activity, 0.0), peer.get(activity, 0.0))
        for activity in slow
        if activity.kind not in _NOT_COMPARED
    ]
    return sorted((row for row in rows if row.seconds > 0), key=lambda row: -row.seconds)


def _placed(total: Excess, rows: Iterable[Excess]) -> Excess:
    """Return an activity's total with a place and code that hold most of its excess."""
    parts = [row for row in rows if row.activity.name == total.activity.name]
    least_s = LEAST_SHARE * total.seconds
    place = _dominant(((row.activity.place, row.seconds) for row in parts), least_s)
    code = _dominant(((row.activity.code, row.seconds) for row in parts), least_s)
    return total._replace(activity=total.activity._replace(place=place, code=code))


def _dominant(parts: Iterable[tuple[str, float]], least_s: float) -> str:
    """Return the name with the most seconds in all, nothing if it has less than `least_s`."""
    seconds: dict[str, float] = defaultdict(float)
    for name, part_s in parts:
        seconds[name] += part_s
    name, most_s = max(seconds.items(), key=lambda item: item[1])
    return name if most_s >= least_s else ""


def _common_ratio(slow: Profile, peer: Profile, peer_table: Table) -> float:
    """Return the factor by which calls of all operators are slower; NaN without a common one.

    Calls of 1.9x, 2.0x and 1.8x, of operators with 4, 3 and 2 ms of the peer's step, have the
    factor 1.9.
    """
    weights: dict[str, float] = defaultdict(float)
    for activity, seconds in peer_table.items():
        if activity.kind in COMPUTING:
            weights[activity.name] += seconds
    pairs = sorted(
        (slow.call_s[name] / peer.call_s[name], weight)
        for name, weight in weights.items()
        if weight > 0 and name in slow.call_s and peer.call_s[name] > 0
    )
    total = sum(weight for _, weight in pairs)
    if not total:
        return math.nan
    passed = itertools.accumulate(weight for _, weight in pairs)
    middle = next(
        ratio for (ratio, _), sum_s in zip(pairs, passed, strict=True) if sum_s >= total / 2
    )
    low, high = middle / ALIKE_RATIO, middle * ALIKE_RATIO
    alike = sum(weight for ratio, weight in pairs if low <= ratio <= high)
    largest = max(weight for _, weight in pairs)
    is_common = alike >= ALIKE_SHARE * total and largest < ALIKE_SHARE * total
    return middle if is_common and middle > 1 + LEAST_EXCESS else math.nan


def _computing_s(table: Table) -> float:
    return sum(seconds for activity, seconds in table.items() if activity.kind in COMPUTING)


def _off_processor_s(slow: Profile) -> float:
    """Return the seconds a step off the processor, without waits for other ranks."""
    waits = sum(s for activity, s in slow.host.items() if activity.kind is ActivityKind.WAIT)
    return slow.idle_s - waits
