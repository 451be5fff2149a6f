"""Transfers that take longer than in an earlier attempt of the job, or in other jobs of its class.

A link that is slow from the first step has no healthy baseline in the attempt: the job may be built
that way. Only runs with the same work tell more: as many ranks, stages, nodes and tokens per step,
and as many calls and bytes in groups of the same size.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Confidence, Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.signals.arrays import SmallIntegers, Vector
from stepwatch.signals.names import Cause, FindingKind

from .lasting_stages import longest_work
from .thresholds import Thresholds


class Elsewhere(NamedTuple):
    """The waits in the first steps of another run with the same work, and the attempt's own waits.

    `where` names the other run in words (`attempt 0`).
    """

    usual: UsualWaits
    where: str
    own_waits: UsualWaits


class Grown(NamedTuple):
    """Seconds per step waited `now`: `ratio` times the expectation, and `excess` above it.

    The excess costs a share `lost` of the time.
    """

    now: float
    ratio: float
    excess: float
    lost: float


def may_be_slower(course: Course, waited: Vector, limits: Thresholds) -> bool:
    """Return whether the `waited` seconds (buckets,) are enough to be worth a comparison."""
    seconds = float(course.seconds.sum())
    enough = seconds >= limits.elsewhere_seconds
    return bool(enough and waited.sum() >= limits.lasting_lost_ratio * seconds)


def detect_elsewhere(course: Course, reference: Elsewhere, limits: Thresholds) -> list[Finding]:
    """Return at most one finding, on all collectives together.

    There is none if ranks work longer than elsewhere by as much as they wait longer, or if one rank
    works longer than the others: then that explains the wait. There is none either if transfers
    became slow later.
    """
    usual = reference.usual.least_wait
    if reference.own_waits.least_wait < limits.lasting_ratio * usual:
        return []
    course = _observed(course, limits)
    grown = _grown(course, course.least_wait, usual, reference.usual.step, limits)
    if grown is None:
        return []
    work = course.work.sum(axis=1, dtype=np.float64).sum(axis=0) / course.steps.sum()
    more = float(work.mean()) - reference.usual.work
    if abs(more) > limits.elsewhere_work_ratio * reference.usual.work:
        return []
    # If ranks are late in turns, each wait is as long as the latest rank is late: beyond the mean
    # by the logarithm of their number, for exponential lateness.
    in_turns = max(0.0, more) * (1.0 + math.log(len(work)))
    if grown.excess < max(in_turns, float(work.max() - np.median(work))):
        return []
    description = (
        f"collectives take longer than in {reference.where}: who waits least waits "
        f"{in_words(grown.now)} a step, there {in_words(usual)}"
    )
    name = "least wait in collectives per step"
    return [
        _finding(
            course, grown, description, Evidence(name, grown.now, "seconds", _in(reference, usual))
        )
    ]


def detect_stages_elsewhere(
    course: Course, stage: SmallIntegers, reference: Elsewhere, limits: Thresholds
) -> Finding | None:
    """Return the same for waits between the pipeline stages in `stage` (ranks,)."""
    usual = reference.usual.neighbours
    if reference.own_waits.neighbours < limits.lasting_ratio * usual:
        return None
    course = _observed(course, limits)
    if _grown(course, course.pipeline_wait, usual, reference.usual.step, limits) is None:
        return None
    if course.work.shape[2] != len(stage):
        return None
    # All stages together, each by its slowest rank: the other stages wait for its excess work.
    longest = float(longest_work(course, stage).mean())
    more = longest - len(np.unique(stage)) * reference.usual.work
    if abs(more) > limits.elsewhere_work_ratio * longest:
        return None
    grown = _grown(
        course, course.pipeline_wait, usual + max(0.0, more), reference.usual.step, limits
    )
    if grown is None:
        return None
    description = (
        f"transfers between pipeline stages take longer than in {reference.where}: ranks wait "
        f"{in_words(grown.now)} a step for their neighbours, there {in_words(usual)}"
    )
    name = "wait for pipeline neighbours per step"
    return _finding(
        course, grown, description, Evidence(name, grown.now, "seconds", _in(reference, usual))
    )


def _observed(course: Course, limits: Thresholds) -> Course:
    """Return the buckets in which all ranks that are ever compared reported nearly all steps.

    In other buckets, the rank that waits least may wait for an unobserved rank.
    """
    seen_steps = course.seen[:, : course.work.shape[2]]
    seen_steps = seen_steps[:, seen_steps.any(axis=0)]
    complete = (seen_steps >= limits.elsewhere_seen_share * course.steps[:, None]).all(axis=1)
    return course if complete.all() else Course._make(plane[complete] for plane in course)


def _grown(
    course: Course, waited: Vector, usual: float, usual_step: float, limits: Thresholds
) -> Grown | None:
    """Return the growth of `waited` (buckets,) over the `usual` seconds per step.

    It must hold in all but a few buckets, be long enough and cost enough. `usual_step` is the
    step's duration elsewhere.
    """
    if course.seconds.sum() < limits.elsewhere_seconds or not usual > 0:
        return None
    waits = waited / course.steps
    if np.quantile(waits, 1.0 - limits.always_buckets) < limits.lasting_ratio * usual:
        return None
    now, step = (float(total.sum() / course.steps.sum()) for total in (waited, course.seconds))
    excess = now - usual
    lost = max(0.0, min(excess, step - usual_step)) / step
    if lost < limits.lasting_lost_ratio:
        return None
    return Grown(now, now / usual, excess, lost)


def _in(reference: Elsewhere, usual: float) -> str:
    return f"in {reference.where} {in_words(usual)}"


def _finding(course: Course, grown: Grown, description: str, evidence: Evidence) -> Finding:
    step = int(course.first_step[0])
    return build_finding(
        kind=FindingKind.SLOW_COLLECTIVE,
        phase="",
        cause=Cause.SLOW_TRANSFER,
        summary=f"{description} ({times(grown.ratio)}), since step {step} or longer, and ranks "
        f"work about as long; the job lost {grown.lost:.0%} of its throughput; nothing shows "
        "whether the network is slower or the job was changed",
        began_step=step,
        began_ago_seconds=float(course.seconds.sum()),
        severity=grown.excess,
        ratio=grown.ratio,
        lost_ratio=grown.lost,
        evidence=(evidence,),
        confidence=Confidence.ONE_OF,
    )
