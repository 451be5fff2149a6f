"""Loaders that stall in turns: now the batch of one rank is late, now that of another.

Each stall alone is short, and no rank is slower than its peers, so neither a stall of all ranks nor
a straggler shows. But all wait for whoever is late, and the more ranks there are, the more often
somebody is: of 1,000 loaders that stall once in 1,000 steps, one does in most steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.data_stall.detector import Thresholds
from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.trackers.steps.step_window import WORK, Window
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.names import Cause, FindingKind

WINDOW_STEPS = 512
"""Newest steps looked at, where the jobs' windows hold as many."""


class Late(NamedTuple):
    """Late batches: in which of the `steps` (indices), of which rank each, by how many seconds they
    were late, and how many of these the job lost; numbers and `seconds` of all steps."""

    at: Integers
    ranks: Integers
    by: Vector
    lost: Vector
    steps: Integers
    seconds: Vector


def may_be(window: Window, limits: Thresholds) -> bool:
    """Whether some rank waits long for data in enough of the steps: nearly always not."""
    usable, seconds = usable_steps(window), step_seconds(window)
    if not usable.any() or len(window.stage) < 2:
        return False
    longest = window.planes["data"].max(axis=1, initial=0.0)
    least = limits.least_share * float(np.median((seconds - longest)[usable]))
    return int((usable & (longest >= least)).sum()) >= limits.turns_least_late


def late_batches(window: Window, limits: Thresholds) -> Late:
    """Those in a `window` of usable steps: each beyond what the ranks that load wait for in the
    same step, so an epoch, which begins on all of them, is none.

    What a step lost is what its longest work would be shorter by: of work of 2 s beside 1.5 s a
    batch that is 1 s late costs half a second.
    """
    seconds, data = step_seconds(window), window.planes["data"].astype(np.float64)
    loaders = data.sum(axis=0) >= limits.loader_share * seconds.sum()
    count = int(loaders.sum())
    if count < 2:
        nothing = np.zeros(0)
        nowhere = np.zeros(0, dtype=np.int64)
        return Late(nowhere, nowhere, nothing, nothing, window.steps, seconds)
    middle = (count - 1) // 2
    usual = np.partition(data[:, loaders], middle, axis=1)[:, middle]
    beyond = np.maximum(data - usual[:, None], 0.0)
    by = beyond.max(axis=1)
    # Where nearly every step waits for somebody, a usual one is one without.
    at = np.flatnonzero(by >= limits.least_share * float(np.median(seconds - by)))
    work = np.sum([window.planes[name][at] for name in WORK], axis=0, dtype=np.float64)
    lost = work.max(axis=1) - (work - beyond[at]).max(axis=1)
    return Late(at, beyond[at].argmax(axis=1), by[at], lost, window.steps, seconds)


def detect(window: Window, limits: Thresholds) -> list[Finding]:
    """At most one finding, which names no rank, on the steps of `window`."""
    late = late_batches(window.at(np.flatnonzero(usable_steps(window))), limits)
    taken = float(late.seconds.sum())
    if len(late.at) < limits.turns_least_late or taken < limits.lasting_seconds:
        return []
    counts = np.bincount(late.ranks)
    if counts.max() > limits.turns_most_of_one * len(late.ranks) or not _goes_on(late):
        return []
    share = float(late.lost.sum()) / taken
    if share < limits.turns_least_lost or _least_half(late) < limits.turns_least_lost / 2:
        return []
    return [_finding(late, share, int((counts > 0).sum()), len(window.stage))]


def _goes_on(late: Late) -> bool:
    """The newest late batch is no longer ago than three times their mean distance."""
    gap = (late.at[-1] - late.at[0]) / max(1, len(late.at) - 1)
    return bool(len(late.steps) - 1 - late.at[-1] <= 3.0 * gap)


def _least_half(late: Late) -> float:
    """The share lost in that half of the time in which it is less."""
    ends = np.cumsum(late.seconds)
    second = ends[late.at] > ends[-1] / 2
    return min(float(late.lost[part].sum()) for part in (second, ~second)) / (float(ends[-1]) / 2)


def _finding(late: Late, share: float, hit: int, ranks: int) -> Finding:
    each, first = float(np.median(late.by)), int(late.steps[late.at[0]])
    lost = float(late.lost.sum()) / len(late.at)
    summary = (
        f"batches come late on one rank or another since step {first}: in {len(late.at)} of the "
        f"last {len(late.steps)} steps, by {in_words(each)}, on {hit} of {ranks} ranks so far; "
        f"the job lost {share:.0%} of its throughput"
    )
    evidence = (
        Evidence(
            "share that late batches cost",
            share,
            "ratio",
            "what the longest work of each step would save",
        ),
        Evidence("late batches", len(late.at), "steps", f"of {len(late.steps)}"),
        Evidence("how late they are", each, "seconds", "the other ranks of the same step"),
        Evidence("lost to each", lost, "seconds", "no late batch"),
        Evidence("ranks whose batches were late", hit, "ranks", f"of {ranks}"),
    )
    return build_finding(
        kind=FindingKind.DATA_STALL,
        phase="data",
        cause=Cause.SLOW_DATA,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(late.seconds[late.at[0] :].sum()),
        severity=lost,
        ratio=math.nan,
        lost_ratio=share,
        evidence=evidence,
    )
