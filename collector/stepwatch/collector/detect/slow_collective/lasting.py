"""Waits for transfers that are too long for minutes: too little for any one step.

There are two waits. In collectives, the least waiting rank can only wait for the transfer, not for
another rank. Between pipeline stages, all ranks wait for their neighbours. The reference is the
attempt's own past, or another run with the same work: as many ranks, stages, nodes and tokens per
step, and as many calls and bytes in groups of the same size. A link that is slow from the first
step has no healthy past in the attempt. The longer work of ranks explains as much of a wait.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.stage_change import LEAST_SURE, lasting_change, lost_ratio
from stepwatch.collector.detect.finding import Confidence, Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.collector.statistics.medians import TO_DEVIATION, median, medians
from stepwatch.signals.arrays import SmallIntegers, Vector
from stepwatch.signals.names import Cause, FindingKind

from .detector import Thresholds


class Elsewhere(NamedTuple):
    """The waits in the first steps of another run with the same work, and the attempt's own waits.

    `where` names the other run in words (`attempt 0`).
    """

    usual: UsualWaits
    where: str
    own_waits: UsualWaits


class Growth(NamedTuple):
    """Seconds per step waited `now` instead of `usual`, since `first_step`, for `seconds`.

    Longer work explains `more` of the growth, and the rest costs the share `lost`. `reference`
    names the reference in words (`before`), another run if `is_elsewhere`. `sure` is the growth in
    standard errors, NaN without a test of one.
    """

    now: float
    usual: float
    more: float
    lost: float
    first_step: int
    seconds: float
    reference: str
    sure: float = math.nan
    is_elsewhere: bool = False


def grown_in_collectives(course: Course, limits: Thresholds) -> Growth | None:
    """Return the growth of the least wait in collectives over the attempt's own past."""
    work = medians(course.work.sum(axis=1, dtype=np.float64)) / course.steps
    growth = _grown(course, course.least_wait, work, limits)
    if growth is None or growth.now < limits.grown_ratio * growth.usual:
        return None
    start = int(np.searchsorted(course.first_step, growth.first_step))
    alone = _most_grown(course, start, limits)
    return None if alone >= growth.now - growth.usual else growth


def grown_between_stages(course: Course, stage: SmallIntegers, limits: Thresholds) -> Growth | None:
    """Return the growth of the wait between stages `stage` (ranks,) over the attempt's own past."""
    return _grown(course, course.pipeline_wait, longest_work(course, stage), limits)


def _grown(course: Course, waited: Vector, work: Vector, limits: Thresholds) -> Growth | None:
    """Return the permanent growth of `waited` (buckets,), beyond that of `work` per step.

    The rest must be beyond chance by itself, larger than the explained part, and cost enough.
    """
    wait = waited / course.steps
    follows = _follows(wait, work)
    change = lasting_change(wait - follows * (work - median(work))) if len(wait) else None
    if change is None:
        return None
    grown = change.later_level - change.earlier_level
    more = max(0.0, float(np.median(work[change.split :]) - np.median(work[: change.split])))
    excess = grown - more * (1.0 - follows)
    lost = lost_ratio(course, change, excess)
    if lost < limits.least_lost_ratio or excess < more or change.sure * excess < LEAST_SURE * grown:
        return None
    return Growth(
        now=change.later_level,
        usual=change.earlier_level,
        more=more,
        lost=lost,
        first_step=int(course.first_step[change.split]),
        seconds=float(course.seconds[change.split :].sum()),
        reference="before",
        sure=change.sure,
    )


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


def longer_in_collectives(
    course: Course, reference: Elsewhere, limits: Thresholds
) -> Growth | None:
    """Return the growth of the least wait in collectives over another run's.

    If ranks are late in turns, each wait is as long as the latest rank is late: beyond the mean by
    the logarithm of their number, for exponential lateness. One rank that works longer than the
    others makes them wait as long.
    """
    course, usual = _observed(course, limits), reference.usual
    work = course.work.sum(axis=1, dtype=np.float64).sum(axis=0) / max(1, course.steps.sum())
    more = float(work.mean()) - usual.work
    in_turns = more * (1.0 + math.log(len(work)))
    explained = max(in_turns, -more, float(work.max() - np.median(work)))
    waits = usual.least_wait, reference.own_waits.least_wait
    return _longer(course, course.least_wait, *waits, explained, reference, limits)


def longer_between_stages(
    course: Course, stage: SmallIntegers, reference: Elsewhere, limits: Thresholds
) -> Growth | None:
    """Return the growth of the wait between stages `stage` (ranks,) over another run's.

    The other stages wait for the excess work of each stage's slowest rank.
    """
    course, usual = _observed(course, limits), reference.usual
    more = float(longest_work(course, stage).mean()) - len(np.unique(stage)) * usual.work
    waits = usual.neighbours, reference.own_waits.neighbours
    return _longer(course, course.pipeline_wait, *waits, abs(more), reference, limits)


def _observed(course: Course, limits: Thresholds) -> Course:
    """Return the buckets in which all ranks that are ever compared reported nearly all steps.

    In other buckets, the rank that waits least may wait for an unobserved rank.
    """
    seen_steps = course.compared[:, : course.work.shape[2]]
    seen_steps = seen_steps[:, seen_steps.any(axis=0)]
    complete = (seen_steps >= limits.nearly_all_share * course.steps[:, None]).all(axis=1)
    return course if complete.all() else Course._make(plane[complete] for plane in course)


def _longer(
    course: Course,
    waited: Vector,
    usual: float,
    own: float,
    explained: float,
    reference: Elsewhere,
    limits: Thresholds,
) -> Growth | None:
    """Return the growth of `waited` (buckets,) over the `usual` seconds per step elsewhere.

    Beyond the `explained` seconds it must hold in nearly all buckets, be long enough and cost
    enough. It is no growth elsewhere if the attempt's `own` first steps did not show it.
    """
    least = limits.grown_ratio * usual
    if not usual > 0 or own < least or course.seconds.sum() < limits.least_seconds:
        return None
    if np.quantile(waited / course.steps, 1.0 - limits.nearly_all_share) < least + explained:
        return None
    now, step = (float(total.sum() / course.steps.sum()) for total in (waited, course.seconds))
    lost = max(0.0, min(now - usual - explained, step - reference.usual.step)) / step
    if lost < limits.least_lost_ratio:
        return None
    return Growth(
        now=now,
        usual=usual,
        more=explained,
        lost=lost,
        first_step=int(course.first_step[0]),
        seconds=float(course.seconds.sum()),
        reference=f"in {reference.where}",
        is_elsewhere=True,
    )


def finding_of(
    growth: Growth,
    what: str,
    wait: str,
    *,
    subject: str = "",
    confidence: Confidence = Confidence.LIKELY,
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """Return the finding that transfers take longer; `what` names them, and `wait` names the wait.

    `evidence` holds further rows. Only `confidence` in the place is passed: another run never shows
    whether the network differs or the job.
    """
    excess = growth.now - growth.usual - growth.more
    ratio = growth.now / growth.usual if growth.usual > 0 else math.nan
    since, doubt = f"since step {growth.first_step}", ""
    if growth.is_elsewhere:
        since, confidence = f"than {growth.reference}, {since} or longer", Confidence.ONE_OF
        doubt = "; nothing shows whether the network is slower or the job was changed"
    summary = (
        f"{what} take longer {since}: the {wait} is {in_words(growth.now)} per step, "
        f"{growth.reference} {in_words(growth.usual)} ({times(ratio)}), and longer work does "
        f"not explain it; the job lost {growth.lost:.0%} of its throughput{doubt}"
    )
    against = f"{growth.reference} {in_words(growth.usual)}"
    explains = "it explains as much of the wait at most"
    rows = [
        Evidence(f"{wait} per step", growth.now, "seconds", against, reference=growth.usual),
        Evidence("longer work per step", growth.more, "seconds", explains),
    ]
    if not math.isnan(growth.sure):
        needed = f"{LEAST_SURE:g} are needed"
        rows.append(Evidence("the change, in standard errors", growth.sure, "count", needed))
    return build_finding(
        kind=FindingKind.SLOW_COLLECTIVE,
        phase="",
        cause=Cause.SLOW_TRANSFER,
        summary=summary,
        began_step=growth.first_step,
        began_ago_seconds=growth.seconds,
        severity=excess,
        ratio=ratio,
        lost_ratio=growth.lost,
        evidence=(*rows, *evidence),
        subject=subject,
        confidence=confidence,
    )


def detect_always(course: Course, limits: Thresholds) -> list[Finding]:
    """Return the finding on transfers that take most of each step, whatever they took before."""
    seconds = float(course.seconds.sum())
    shares = course.least_wait / course.seconds
    if shares.max(initial=0.0) < limits.always_share:  # nearly always, and no quantile is larger
        return []
    nearly_all = float(np.quantile(shares, 1.0 - limits.nearly_all_share))
    is_extreme = nearly_all >= limits.most_share
    least_seconds = limits.least_seconds if is_extreme else limits.always_seconds
    if nearly_all < limits.always_share or seconds < least_seconds:
        return []
    share, step = float(course.least_wait.sum()) / seconds, int(course.first_step[0])
    waits = float(course.least_wait.sum() / course.steps.sum())
    summary = (
        f"collectives take {share:.0%} of each step on all ranks, since step {step} or longer: the "
        f"least wait is {in_words(waits)} per step; nothing shows whether the network is slow or "
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
