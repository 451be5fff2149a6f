"""Throughput regression: the whole job uses its time clearly worse than its baseline.

If steps grew because they hold more tokens, only tokens per second count. No rank is named: a
straggler, starving loader or slow collective explains it, if one is found. A job is also compared
with others of its class, size and tokens per step, by the slow ones among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.first_steps import Course
from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.quantities import seconds
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS
from stepwatch.collector.statistics.medians import quantiles
from stepwatch.signals.arrays import Mask
from stepwatch.signals.names import Cause, FindingKind


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a slow job."""

    least_ratio: float = 1.3
    """Ratio: step time over that in the run's first steps. Fail-slow jobs are reported to run 1.34x
    slower.
    """
    least_seconds: float = 120.0
    """Seconds: how long it must last, over at least as many steps as a baseline has. A busy host
    slows all ranks for whole seconds, and a neighbouring job for tens of seconds; it costs a
    ticket, not a page, so two minutes are soon enough.
    """
    slow_share: float = 0.8
    """Share: the steps in this time, and among the newest ones, that must be slow. They must also
    be longer than this share of the first steps, which may scatter.
    """
    class_jobs: int = 3
    """Jobs: how many peers in its class must be known."""
    class_ratio: float = 0.6
    """Ratio: speed over that of its class's slow peers below which a job is a finding, however even
    its baseline. Nodes of one kind differ by less.
    """
    least_wait_gap: float = 0.1
    """Share: a rank waits clearly least if the others wait longer by this part of the step."""


_MORE_TOKENS = 1.05
"""Steps hold more tokens if they grew by more than this factor over the per-token slowdown."""

LIMITS = Thresholds()
"""The shipped thresholds."""


class Shift(NamedTuple):
    """The part of a step that grew most.

    `now` and `baseline` are the phase's seconds per step and rank.
    """

    phase: str
    now: float
    baseline: float


def detect(
    course: Course, baseline: Course, peers: list[float], shift: Shift | None, limits: Thresholds
) -> list[Finding]:
    """Return at most one finding on the newest steps of `course`.

    `baseline` holds the run's first steps, `peers` the tokens per second of other jobs in its
    class.
    """
    recent = _recent(course, limits)
    if recent is None or not len(baseline.seconds):
        return []
    slowdown = course.slowdown(baseline)
    behind, slow_peer = math.nan, _slow_peer(peers, limits)
    if slow_peer > 0:
        speed = course.part(recent).tokens_per_second()
        behind = speed / float(np.median(peers)) if speed < slow_peer else math.nan
    if _lasts(slowdown[recent] >= limits.least_ratio, limits):  # nearly never
        scattered = baseline.slowdown(baseline)
        least = max(limits.least_ratio, float(np.quantile(scattered, limits.slow_share)))
        slow = slowdown >= least
        if _lasts(slow[recent], limits):
            return [_own_past(course, baseline, slow, behind, shift)]
    if not math.isnan(behind):
        speeds = course.tokens[recent] / np.maximum(course.seconds[recent], 1e-9)
        if _lasts(speeds < limits.class_ratio * slow_peer, limits):
            return [_class(course, recent, behind, len(peers))]
    return []


def _recent(course: Course, limits: Thresholds) -> slice | None:
    """Return the newest steps over which it must last; None if the run is too young."""
    count = len(course.steps)
    if count < BASELINE_STEPS:
        return None
    start = int(np.searchsorted(course.end_s, course.end_s[-1] - limits.least_seconds))
    start = min(start, count - BASELINE_STEPS)
    span = course.end_s[-1] - course.end_s[start] + course.seconds[start]
    # The step across the start of the required time is excluded.
    return slice(start, count) if start > 0 and span >= 0.8 * limits.least_seconds else None


def _lasts(slow: Mask, limits: Thresholds) -> bool:
    newest = slow[-BASELINE_STEPS:]
    return bool(min(slow.mean(), newest.mean()) >= limits.slow_share)


def _slow_peer(peers: list[float], limits: Thresholds) -> float:
    """Return the speed of a class's slow peers in tokens per second; NaN without enough peers.

    It is as far below the lower quartile as that is below the median, so different models in one
    class make it low. Peers at 4, 8, 8, 8 -> 6; at 4, 8, 16, 32 -> 2.
    """
    if len(peers) < limits.class_jobs:
        return math.nan
    low, usual = quantiles(np.array(peers), (0.25, 0.5))
    return 2 * low - usual


def _own_past(
    course: Course, baseline: Course, slow: Mask, behind: float, shift: Shift | None
) -> Finding:
    # One step in five may still be fast.
    since = first_of_run(slow, gap=5)
    part = course.part(slice(since, None))
    first, times = int(course.steps[since]), float(np.median(part.slowdown(baseline)))
    now, usual = float(np.median(part.seconds)), float(np.median(baseline.seconds))
    # Steps with more tokens grew by more than they slowed down.
    per_token = " per token" if now / usual > _MORE_TOKENS * times else ""
    summary = (
        f"all ranks are slower since step {first}: {seconds(now)} a step, {times:.2f}x the "
        f"baseline{per_token}"
    )
    baseline_label = f"baseline {seconds(usual)}"
    evidence = [Evidence("step time", now, "seconds", baseline_label, reference=usual)]
    speed, usual_speed = part.tokens_per_second(), baseline.tokens_per_second()
    if not math.isnan(speed):
        against = "baseline unknown" if math.isnan(usual_speed) else f"baseline {usual_speed:.0f}"
        evidence.append(
            Evidence("tokens per second", speed, "tokens/s", against, reference=usual_speed)
        )
    if shift is not None:
        phase = shift.phase.replace("_", " ")
        summary += f", most of it in {phase}"
        against = f"baseline {seconds(shift.baseline)}"
        evidence.append(
            Evidence(f"{phase} per step", shift.now, "seconds", against, reference=shift.baseline)
        )
    if not math.isnan(behind):
        summary += f"; at {behind:.0%} of its class"
        evidence.append(
            Evidence("speed over that of its class", behind, "ratio", "100%", reference=1.0)
        )
    return _finding(
        course=course,
        since=since,
        summary=summary,
        phase=shift.phase if shift else "other",
        times=times,
        evidence=evidence,
    )


def _class(course: Course, recent: slice, behind: float, jobs: int) -> Finding:
    since = recent.start
    summary = (
        f"the job runs at {behind:.0%} of its class: {jobs} jobs of the same size and tokens per "
        "step agree on their speed"
    )
    evidence = [Evidence("speed over that of its class", behind, "ratio", f"{jobs} jobs")]
    return _finding(
        course=course,
        since=since,
        summary=summary,
        phase="other",
        times=1 / max(behind, 1e-9),
        evidence=evidence,
    )


def _finding(
    course: Course, since: int, summary: str, phase: str, times: float, evidence: list[Evidence]
) -> Finding:
    return build_finding(
        kind=FindingKind.THROUGHPUT_REGRESSION,
        phase=phase,
        cause=Cause.ALL_RANKS_SLOWER,
        summary=summary,
        began_step=int(course.steps[since]),
        began_ago_seconds=float(course.end_s[-1] - course.end_s[since] + course.seconds[since]),
        severity=times,
        ratio=times,
        lost_ratio=1 - 1 / times,
        evidence=evidence,
    )
