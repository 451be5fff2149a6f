"""Collectives that take slightly longer on all ranks, for minutes: too little for any one step.

The detector evaluates the least waiting rank: it can only wait for the transfer, not for another
rank.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.stage_change import lasting_change, lost_ratio
from stepwatch.collector.detect.finding import Confidence, Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.statistics.medians import TO_DEVIATION
from stepwatch.signals.names import Cause, FindingKind

from .thresholds import Thresholds


def detect_lasting(course: Course, limits: Thresholds) -> list[Finding]:
    """Return at most one finding, on all collectives together.

    The transfer has grown permanently and by enough, while ranks work as long as before. Waits for
    pipeline neighbours do not count.
    """
    wait = course.least_wait / np.maximum(course.steps, 1)
    change = lasting_change(wait) if len(wait) else None
    if change is None or not change.after >= limits.lasting_ratio * change.before:
        return _detect_always(course, limits)
    work = np.median(course.work.sum(axis=1), axis=1) / course.steps
    usual, now = (float(np.median(part)) for part in (work[: change.at], work[change.at :]))
    lost = lost_ratio(course, change, change.after - change.before)
    if now > limits.lasting_work_ratio * usual or lost < limits.lasting_lost_ratio:
        return []
    if _most_grown(course, change.at, limits) >= change.after - change.before:
        return []
    step = int(course.first_step[change.at])
    ratio = change.after / max(change.before, 1e-9)
    summary = (
        f"collectives take longer on all ranks since step {step}: who waits least waits "
        f"{in_words(change.after)} a step, before {in_words(change.before)} ({times(ratio)}); "
        f"the job lost {lost:.0%} of its throughput"
    )
    evidence = (
        Evidence(
            "least wait in collectives per step",
            change.after,
            "seconds",
            f"before {in_words(change.before)}",
        ),
        Evidence("the change, in standard errors", change.sure, "count", "8 are needed"),
        Evidence("work of the median rank per step", now, "seconds", f"before {in_words(usual)}"),
    )
    return [
        build_finding(
            kind=FindingKind.SLOW_COLLECTIVE,
            phase="",
            cause=Cause.SLOW_TRANSFER,
            summary=summary,
            began_step=step,
            began_ago_seconds=float(course.seconds[change.at :].sum()),
            severity=change.after - change.before,
            ratio=ratio,
            lost_ratio=lost,
            evidence=evidence,
        )
    ]


def _most_grown(course: Course, start: int, limits: Thresholds) -> float:
    """Return the largest work growth of a rank since bucket `start`, in seconds per step.

    The growth is counted beyond the median rank's; it is 0 if no rank is an outlier. In a step
    with several collectives, a rank that is late at the first one waits at the next ones for the
    rank with the longest sequence: all ranks wait more, and no transfer takes longer.
    """
    work = course.work.sum(axis=1, dtype=np.float64)
    rates_after, rates_before = (
        work[part].sum(axis=0) / course.steps[part].sum()
        for part in (slice(start, None), slice(None, start))
    )
    grown = rates_after - rates_before
    beyond = grown - np.median(grown)
    spread = TO_DEVIATION * float(np.median(np.abs(beyond)))
    most = float(beyond.max(initial=0.0))
    return most if most >= limits.stands_out * spread else 0.0


def _detect_always(course: Course, limits: Thresholds) -> list[Finding]:
    """Return findings on transfers that take most of each step, whatever they took before."""
    seconds = float(course.seconds.sum())
    shares = course.least_wait / course.seconds
    if shares.max(initial=0.0) < limits.always_share:  # nearly always, and no quantile is larger
        return []
    nearly_all = float(np.quantile(shares, 1.0 - limits.always_buckets))
    least = (limits.always_share, limits.always_seconds)
    if nearly_all >= limits.most_share:
        least = (limits.most_share, limits.most_share_seconds)
    if nearly_all < least[0] or seconds < least[1]:
        return []
    share, step = float(course.least_wait.sum()) / seconds, int(course.first_step[0])
    waits = float(course.least_wait.sum() / course.steps.sum())
    summary = (
        f"collectives take {share:.0%} of each step on all ranks, since step {step} or longer: who "
        f"waits least waits {in_words(waits)} a step; nothing shows whether the network is slow or "
        "the job is made so"
    )
    evidence = (
        Evidence("least wait in collectives per step", waits, "seconds", "no earlier steps differ"),
        Evidence("share of the step", share, "ratio", f"from {limits.always_share:.0%} on"),
    )
    return [
        build_finding(
            kind=FindingKind.SLOW_COLLECTIVE,
            phase="",
            cause=Cause.SLOW_TRANSFER,
            summary=summary,
            began_step=step,
            began_ago_seconds=seconds,
            severity=waits,
            lost_ratio=share,
            evidence=evidence,
            confidence=Confidence.ONE_OF,
        )
    ]
