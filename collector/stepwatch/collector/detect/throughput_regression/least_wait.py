"""The awaited rank in a job that spends more time waiting: the rank that waits least itself.

No two clocks are compared, and no phase has to show the rank's activity meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, text_evidence
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.signals.arrays import FloatMatrix
from stepwatch.signals.names import Cause
from stepwatch.signals.phrases import ranks_text

from .detector import Thresholds

_WAITS = ("collective", "pipeline_wait")


class LeastWaiting(NamedTuple):
    """The least waiting ranks: the others wait for them, or for one of several.

    `waits` and `other_waits` are their and the other ranks' median wait seconds per step.
    """

    ranks: tuple[int, ...]
    waits: float
    other_waits: float


def least_waiting(
    waits: FloatMatrix, step_seconds: float, limits: Thresholds
) -> LeastWaiting | None:
    """Return the ranks that wait clearly least in most steps, at most a quarter of the ranks.

    The result is None without any. `waits` (steps, ranks) is the wait in collectives and for other
    stages. Worked example: four ranks that wait 50, 50, 51, 4 ms in 200 ms steps -> rank 3.
    """
    steps, ranks = waits.shape
    if ranks < 2 or not steps:
        return None
    usual = np.median(waits, axis=0)
    ordered = np.sort(usual)
    low, high = float(ordered[0]), float(np.median(ordered[1:]))
    if high - low < limits.least_wait_gap * step_seconds:
        return None
    near = np.flatnonzero(usual <= (low + high) / 2)
    in_most_steps = np.isin(waits.argmin(axis=1), near).mean() > 0.5
    if len(near) > max(1, ranks // 4) or not in_most_steps:
        return None
    return LeastWaiting(tuple(near.tolist()), low, high)


def with_least_waiting(finding: Finding, waiters: LeastWaiting) -> Finding:
    """Return `finding`, which reports that all ranks are slower, with the ranks that cause it."""
    single = len(waiters.ranks) == 1
    names = ", ".join(map(str, waiters.ranks))
    ranks_label = f"rank {names}, likely" if single else f"one of ranks {names}"
    words = f"; the others wait for {ranks_label}: it waits {in_words(waiters.waits)} a step"
    row = Evidence(
        "waits least, per step",
        waiters.waits,
        "seconds",
        f"the others {in_words(waiters.other_waits)}",
        reference=waiters.other_waits,
    )
    return finding._replace(
        rank=waiters.ranks[0] if single else finding.rank,
        cause=Cause.UNKNOWN,
        summary=finding.summary.replace("all ranks are slower", "the job is slower", 1)
        + f"{words}, they {in_words(waiters.other_waits)}",
        evidence=(*finding.evidence, row),
    )


def with_unobserved(finding: Finding, unobserved: Collection[int]) -> Finding:
    """Return `finding` with the unobserved ranks: the others may wait for one of them."""
    unseen = ranks_text(unobserved)
    words = f"; nothing is known of {unseen}"
    if finding.rank == NO_RANK and finding.phase in _WAITS:
        words += ", for which the others may wait"
    return finding._replace(
        cause=Cause.UNKNOWN,
        summary=finding.summary.replace("all ranks are slower", "the job is slower", 1) + words,
        evidence=(*finding.evidence, text_evidence("ranks not observed", unseen, "")),
    )
