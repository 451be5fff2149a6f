"""Transfers that take longer than in an earlier attempt of the job, or in others of its class.

A link that is slow from the first step on has no past in the attempt itself: what it takes there
may be what the job is made for. Only runs of as many ranks, stages and tokens per step say more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.trackers.early_baseline import UsualWaits
from stepwatch.signals.arrays import Vector
from stepwatch.signals.names import Cause, FindingKind

from .detector import Thresholds


class Elsewhere(NamedTuple):
    """What the first steps of another run took, and in words which one: `attempt 0`."""

    usual: UsualWaits
    where: str


class Grown(NamedTuple):
    """Seconds per step that are waited `now`, `ratio` times what is expected and by `excess` more,
    which costs a share `lost` of the time."""

    now: float
    ratio: float
    excess: float
    lost: float


def detect_elsewhere(course: Course, known: Elsewhere, limits: Thresholds) -> list[Finding]:
    """At most one finding, on all collectives together.

    Nothing where ranks work longer than elsewhere by as much as they wait longer, or one of them
    longer than the others do: that is what they wait for.
    """
    work = course.work.sum(axis=1, dtype=np.float64).sum(axis=0) / max(1, course.steps.sum())
    more = max(0.0, float(work.mean()) - known.usual.work)
    # A host that is slower takes longer for transfers, too.
    usual = known.usual.least_wait * (1.0 + more / max(known.usual.work, 1e-9))
    grown = _grown(course, course.least_wait, usual, known.usual.step, limits)
    if grown is None or grown.excess < max(more, float(work.max() - np.median(work))):
        return []
    what = (
        f"collectives take longer than in {known.where}: who waits least waits "
        f"{in_words(grown.now)} a step, there {in_words(known.usual.least_wait)}"
    )
    name, usual = "least wait in collectives per step", known.usual.least_wait
    return [_finding(course, grown, what, Evidence(name, grown.now, "seconds", _in(known, usual)))]


def detect_stages_elsewhere(
    course: Course, longest: Vector, stages: int, known: Elsewhere, limits: Thresholds
) -> Finding | None:
    """The same of waits between pipeline stages; `longest` (buckets,) are the seconds per step that
    all `stages` together work, each by its slowest rank."""
    more = max(0.0, float(longest.mean()) - stages * known.usual.work)
    usual = known.usual.neighbours
    grown = _grown(course, course.pipeline_wait, usual + more, known.usual.step, limits)
    if grown is None:
        return None
    what = (
        f"transfers between pipeline stages take longer than in {known.where}: ranks wait "
        f"{in_words(grown.now)} a step for their neighbours, there {in_words(usual)}"
    )
    name = "wait for pipeline neighbours per step"
    return _finding(course, grown, what, Evidence(name, grown.now, "seconds", _in(known, usual)))


def _grown(
    course: Course, waited: Vector, usual: float, usual_step: float, limits: Thresholds
) -> Grown | None:
    """What is `waited` (buckets,) in all but a few stretches beyond the `usual` seconds per step,
    if it is long enough and costs enough; a step takes `usual_step` elsewhere."""
    if course.seconds.sum() < limits.elsewhere_seconds or not usual > 0:
        return None
    waits = waited / course.steps
    if np.quantile(waits, 1.0 - limits.always_buckets) < limits.lasting_ratio * usual:
        return None
    now, step = (float(each.sum() / course.steps.sum()) for each in (waited, course.seconds))
    excess = now - usual
    lost = max(0.0, min(excess, step - usual_step)) / step
    if lost < limits.lasting_lost_ratio:
        return None
    return Grown(now, now / usual, excess, lost)


def _in(known: Elsewhere, usual: float) -> str:
    return f"in {known.where} {in_words(usual)}"


def _finding(course: Course, grown: Grown, what: str, evidence: Evidence) -> Finding:
    step = int(course.first_step[0])
    return build_finding(
        kind=FindingKind.SLOW_COLLECTIVE,
        phase="",
        cause=Cause.SLOW_TRANSFER,
        summary=f"{what} ({times(grown.ratio)}), since step {step} or longer, and ranks work about "
        f"as long; the job lost {grown.lost:.0%} of its throughput; nothing shows whether the "
        "network is slower or the job was changed",
        began_step=step,
        began_ago_seconds=float(course.seconds.sum()),
        severity=grown.excess,
        ratio=grown.ratio,
        lost_ratio=grown.lost,
        evidence=(evidence,),
    )
