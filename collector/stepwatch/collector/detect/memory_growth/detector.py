"""Memory growth: a rank, or all ranks, will run out of memory.

The trend follows the lower envelope of a history: it must rise in every piece, and evenly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds, size
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.signals.arrays import Integers, Mask, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind


class History(NamedTuple):
    """Readings of one memory kind.

    `seconds`, `bytes` and `steps` are planes (ranks, readings) in rising time, NaN where a rank has
    fewer readings. `room` (ranks,) are the bytes left until the limit, NaN if unknown. `share`
    (ranks,) numbers shared memory: ranks with the same number share it, for example a node's.
    `cause` separates host and device. `children` (ranks,) is the growth of each rank's child
    processes within the newest `bytes`.
    """

    seconds: Matrix
    bytes: Matrix
    steps: Matrix
    room: Vector
    share: Integers
    cause: Cause
    children: Vector


class Growth(NamedTuple):
    """Each rank's bytes a second, bytes gained, and whether it grew steadily and evenly."""

    rate: Vector
    gained: Vector
    steady: Mask


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for growth."""

    pieces: int = 4
    """Pieces: how many a history has. Each piece's lowest reading counts, so a checkpoint or an
    allocator peak that ends within a piece is no growth.
    """
    steady_ratio: float = 0.5
    """Ratio: a piece's growth over the mean growth. Less means a single jump, or a cache that
    levels off.
    """
    least_bytes: int = 67108864
    """Bytes: growth over a history below which there is no finding. Loader and allocator caches
    stay below it.
    """
    least_ratio: float = 0.05
    """Share: the same growth in the rank's memory when the history began."""
    horizon_histories: float = 120.0
    """Histories: how far a trend is extrapolated. A quarter-minute history covers the next half
    hour, a half-hour history two and a half days.
    """


_MOSTLY = 0.5
"""Growth share from which the finding attributes the growth to child processes."""
LIMITS = Thresholds()
"""The shipped thresholds."""


def detect(history: History, first_step: int, limits: Thresholds) -> list[Finding]:
    """Return a finding for each rank that will run out, or one for the job if most ranks grow.

    `first_step` is the attempt's first. A rank without a full history is unknown and no finding. If
    the limit is unknown, a rank is a finding only if most of its peers do not grow.
    """
    if not history.bytes.size:
        return []
    growth = grown(history, first_step, limits)
    if not growth.steady.any():
        return []
    remaining_s = seconds_left(history, growth)
    width = history.seconds[:, -1] - history.seconds[:, 0]
    soon = remaining_s <= limits.horizon_histories * width
    has_rate = ~np.isnan(growth.rate)
    most_grow = 2 * growth.steady.sum() > has_rate.sum()
    unlike_peers = np.isnan(remaining_s) & ~most_grow
    ranks = np.flatnonzero(growth.steady & (soon | unlike_peers))
    if not len(ranks):
        return []
    if len(ranks) > 1 and 2 * len(ranks) > has_rate.sum():
        return [
            _finding(
                history=history,
                growth=growth,
                remaining_s=remaining_s,
                ranks=ranks,
                rank=NO_RANK,
            )
        ]
    single_ranks = [np.array([rank]) for rank in ranks]
    return [
        _finding(
            history=history,
            growth=growth,
            remaining_s=remaining_s,
            ranks=single,
            rank=int(single[0]),
        )
        for single in single_ranks
    ]


def grown(history: History, first_step: int, limits: Thresholds) -> Growth:
    """Return the growth of each rank's lower envelope.

    It is NaN for a rank with a short history or in the warm-up.
    """
    ranks, readings = history.bytes.shape
    width = readings // limits.pieces
    shape = (ranks, limits.pieces, width)
    full = ~np.isnan(history.bytes).any(axis=1)
    full &= np.nan_to_num(history.steps[:, 0], nan=-1.0) >= first_step + WARMUP_STEPS
    least = history.bytes[:, -limits.pieces * width :].reshape(shape).min(axis=2)
    least[~full] = np.nan
    gains = np.diff(least, axis=1)
    gained = least[:, -1] - least[:, 0]
    seconds = history.seconds[:, -1] - history.seconds[:, 0]
    seconds = seconds * (limits.pieces - 1) / limits.pieces
    enough = gained >= np.maximum(limits.least_bytes, limits.least_ratio * least[:, 0])
    even = gains.min(axis=1) >= limits.steady_ratio * gained / (limits.pieces - 1)
    rate = np.divide(gained, seconds, out=np.full(ranks, np.nan), where=seconds > 0)
    return Growth(rate, gained, enough & even & ~np.isnan(rate))


def seconds_left(history: History, growth: Growth) -> Vector:
    """Return the seconds until the memory that each rank shares is full.

    The rate is the sum over all ranks that grow in it.
    """
    total = np.bincount(history.share, weights=np.where(growth.steady, growth.rate, 0.0))
    rate = total[history.share]
    remaining_s = np.full(len(rate), np.nan)
    np.divide(history.room, rate, out=remaining_s, where=rate > 0)
    return remaining_s


def _finding(
    history: History, growth: Growth, remaining_s: Vector, ranks: Integers, rank: int
) -> Finding:
    worst = int(ranks[np.argmax(growth.rate[ranks])])
    rate, remaining = float(growth.rate[worst]), float(remaining_s[worst])
    kind = "device" if history.cause is Cause.DEVICE_MEMORY else "host"
    ranks_label = f"rank {rank}" if rank != NO_RANK else f"{len(ranks)} of {len(growth.rate)} ranks"
    if rank != NO_RANK and history.children[rank] >= _MOSTLY * growth.gained[rank]:
        ranks_label += ", mostly in processes that it started,"
    grows = "grows" if rank != NO_RANK else "grow"
    end = "" if math.isnan(remaining) else f"; at this rate it is full in {seconds(remaining)}"
    summary = f"{kind} memory: {ranks_label} {grows} by {size(rate)} per second{end}"
    peer_rates = np.delete(growth.rate, ranks)
    usual = float(np.nanmedian(peer_rates)) if np.isfinite(peer_rates).any() else math.nan
    against = "peers unknown" if math.isnan(usual) else f"peers {size(usual)} per second"
    evidence: tuple[Evidence, ...] = (
        Evidence(
            f"growth of {kind} memory, rank {worst}",
            rate,
            "bytes per second",
            against,
            reference=usual,
        ),
        Evidence(f"gained by rank {worst}", float(growth.gained[worst]), "bytes", "0 B expected"),
        Evidence("until full", remaining, "seconds", f"{kind} memory left"),
    )
    if history.children[worst] > 0:
        grew = float(history.children[worst])
        row = Evidence(f"children of rank {worst} grew by", grew, "bytes", "loader workers, say")
        evidence = (*evidence, row)
    return build_finding(
        kind=FindingKind.MEMORY_GROWTH,
        rank=rank,
        cause=history.cause,
        summary=summary,
        began_step=int(history.steps[worst, 0]),
        began_ago_seconds=float(history.seconds[worst, -1] - history.seconds[worst, 0]),
        severity=rate,
        lost_ratio=0.0,
        evidence=evidence,
        subject=kind,
    )
