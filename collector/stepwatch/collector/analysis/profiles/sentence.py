"""A comparison of two profiles in one sentence."""

from __future__ import annotations

import math

from .activities import ActivityKind
from .comparison import Comparison, Excess, Pattern

_ON_PROCESSOR = "operators, each {}: the processor"
MOST_NAMED = 3
"""Activities that a sentence names if no single one explains the excess."""


def sentence(comparison: Comparison) -> str:
    """Return what the comparison shows, without a name for the slow rank.

    Examples: `aten::mm 2.1x, 84 % of the excess, in Block_7/MLP_7`; `the same operators, each 1.9x:
    the processor`; `garbage collection takes 14 ms a step (peer 0.1 ms), 91 % of the excess`.
    """
    if comparison.pattern is Pattern.NONE:
        return f"no excess over rank {comparison.peer} in the profiled steps"
    if comparison.pattern is Pattern.ALL:
        kernels, cause = (
            ("kernels", "device") if comparison.on_device else ("operators", "processor")
        )
        return f"the same {kernels}, each {comparison.ratio:.1f}x: the {cause}"
    if comparison.pattern is Pattern.ONE:
        return _one(comparison, comparison.rows[0])
    named = ", ".join(
        f"{row.activity.name} {_milliseconds(row.seconds)}" for row in comparison.rows[:MOST_NAMED]
    )
    total = _milliseconds(comparison.excess_s)
    return f"no single operator explains the excess of {total} a step; the largest parts: {named}"


def _one(comparison: Comparison, row: Excess) -> str:
    share = f"{min(row.seconds / comparison.excess_s, 1.0):.0%}".replace("%", " %")
    kind = row.activity.kind
    if kind in (ActivityKind.OPERATOR, ActivityKind.KERNEL):
        ratio = f"{row.ratio:.1f}x" if math.isfinite(row.ratio) else "not on the peer"
        return f"{row.activity.name} {ratio}, {share} of the excess{_place(row)}"
    times = f"{_milliseconds(row.slow_s)} a step (peer {_milliseconds(row.peer_s)})"
    if kind is ActivityKind.COLLECTION:
        return f"garbage collection takes {times}, {share} of the excess"
    if kind is ActivityKind.LOADER:
        return f"DataLoader.__next__ takes {times}, {share} of the excess"
    how = "waits: a lock, I/O or sleep" if comparison.waits else "Python outside operators"
    return f"{row.activity.name} takes {times}, {share} of the excess{_place(row)} ({how})"


def _place(row: Excess) -> str:
    place, code = row.activity.place, row.activity.code
    if code and code != row.activity.name:
        place = f"{place} ({code})" if place else code
    return f", in {place}" if place else ""


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
