"""Waits between pipeline stages that have grown slightly, for minutes, without more stage work.

If one stage works longer, the others wait longer by the same time. The work growth of all stages
together, each by its slowest rank, is subtracted; the remainder is the transfer between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.stage_change import lasting_change, lost_ratio
from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.statistics.change import Change
from stepwatch.signals.arrays import SmallIntegers, Vector
from stepwatch.signals.names import Cause, FindingKind

from .stage_transfers import Pair, confidence_in, names_of
from .thresholds import Thresholds


class GrownWait(NamedTuple):
    """The wait for pipeline neighbours per step has changed.

    `more` seconds are explained by longer stage work, and `lost` is the time share that the
    remainder costs.
    """

    change: Change
    more: float
    lost: float
    first_step: int
    seconds: float


def grown_wait(course: Course, stage: SmallIntegers, limits: Thresholds) -> GrownWait | None:
    """Return the wait in a pipeline with stages `stage` (ranks,), if it has grown for good.

    The growth must cost enough.
    """
    if course.work.shape[2] != len(stage) or not len(course.seconds):
        return None
    work, wait = longest_work(course, stage), course.pipeline_wait / course.steps
    follows = _follows(wait, work)
    change = lasting_change(wait - follows * (work - np.median(work)))
    if change is None:
        return None
    more = float(np.median(work[change.at :]) - np.median(work[: change.at]))
    excess = change.after - change.before - max(0.0, more) * (1.0 - follows)
    lost = lost_ratio(course, change, excess)
    # The remainder must be beyond chance by itself, and larger than the explained part.
    sure = change.sure * excess / max(change.after - change.before, 1e-9)
    if lost < limits.lasting_lost_ratio or sure < limits.lasting_rest_sure or excess < more:
        return None
    seconds = float(course.seconds[change.at :].sum())
    return GrownWait(change, more, lost, int(course.first_step[change.at]), seconds)


def _follows(wait: Vector, work: Vector) -> float:
    """Return by how many seconds the wait grows with each second of work, between buckets.

    The bubble grows with the sequences. A permanent change is one difference among many. Wait 1, 2,
    1, 3 with work 4, 6, 4, 8: differences 1, -1, 2 against 2, -2, 4 -> 0.5.
    """
    more, longer = np.diff(work), np.diff(wait)
    power = float(more @ more)
    return min(max(float(more @ longer) / power, 0.0), 1.0) if power > 0 else 0.0


def longest_work(course: Course, stage: SmallIntegers) -> Vector:
    """Return the seconds per step (buckets,) that all stages work, each by its slowest rank."""
    work = course.work.sum(axis=1, dtype=np.float64) / course.steps[:, None]
    slowest = [work[:, stage == number].max(axis=1) for number in np.unique(stage).tolist()]
    return np.asarray(np.sum(slowest, axis=0))


def finding_of(grown: GrownWait, pair: Pair | None, ranks: Mapping[int, list[int]]) -> Finding:
    """Return the finding on a grown wait, between a pair of stages, or between some if it is None.

    `ranks` holds each stage's ranks.
    """
    subject, place = names_of(pair, ranks)
    wait_before, wait_after = grown.change.before, grown.change.after
    summary = (
        f"transfers {place} take longer since step {grown.first_step}: ranks wait "
        f"{in_words(wait_after)} a step for their neighbours, before {in_words(wait_before)}, and "
        f"no stage works longer by that; the job lost {grown.lost:.0%} of its throughput"
    )
    evidence = (
        Evidence(
            "wait for pipeline neighbours per step",
            wait_after,
            "seconds",
            f"before {in_words(wait_before)}",
        ),
        Evidence(
            "what all stages work longer per step",
            max(0.0, grown.more),
            "seconds",
            "than before: it explains as much of the wait",
        ),
        Evidence("the change, in standard errors", grown.change.sure, "count", "8 are needed"),
    )
    return build_finding(
        kind=FindingKind.SLOW_COLLECTIVE,
        phase="",
        cause=Cause.SLOW_TRANSFER,
        summary=summary,
        began_step=grown.first_step,
        began_ago_seconds=grown.seconds,
        severity=wait_after - wait_before - max(0.0, grown.more),
        ratio=wait_after / wait_before if wait_before > 0 else float("nan"),
        lost_ratio=grown.lost,
        evidence=evidence,
        subject=subject,
        confidence=confidence_in(pair),
    )
