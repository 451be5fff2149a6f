"""Inputs for the slow-collective detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stepwatch.collector.analysis.beginnings import beginning_of
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.detect.throughput_regression.detector import LIMITS as THROUGHPUT
from stepwatch.collector.state.collective_timing import Waits, waits
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.collector.step_clocks import HOST
from stepwatch.signals.arrays import Vector

from .detector import LIMITS, Key, Steps, bytes_of, detect, is_slow, subject_of, transfers
from .lasting import (
    Elsewhere,
    Growth,
    detect_always,
    finding_of,
    grown_in_collectives,
    longer_in_collectives,
)

ROWS_BACK = 1 << 18
"""Number of (step, rank) cells read to date a finding."""


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on operations whose transfer exceeds their baseline, clearly or for long."""
    findings = _find_clear(context) or _find_lasting(context)
    return [context.dated(with_clock(context, finding)) for finding in findings]


def _find_clear(context: DetectionContext) -> list[Finding]:
    window, limits, calls = context.window, context.thresholds(LIMITS), context.baseline.calls
    usual = context.baseline.work_of(len(window.stage))
    chosen = np.flatnonzero(usable_steps(window))
    if not calls or not usual or not len(chosen):
        return []
    newest, world = window.select(chosen[-1:]), len(window.stage)
    # Longer work only explains a transfer. Without it, nearly always no operation is slow.
    steps = Steps(newest.steps, step_seconds(newest), np.ones(1), np.zeros((1, world)))
    newest_waits = _waits(context, newest)
    if not len(newest_waits.rows):
        return []
    if not is_slow(transfers(newest_waits, calls, steps), steps.seconds, limits).any():
        return []
    part = window.select(chosen[-max(limits.window_steps, ROWS_BACK // world) :])
    groups = collectives_on(context.attempt, window.clock).groups
    return detect(_waits(context, part), groups, calls, _steps(part, usual), limits)


def _waits(context: DetectionContext, part: Window) -> Waits:
    """Return the collectives in the steps of `part`."""
    calls = collectives_on(context.attempt, part.clock)
    return waits(calls.of_steps(int(part.steps[0]), int(part.steps[-1])), calls.groups)


def _steps(part: Window, baseline: Mapping[str, Vector]) -> Steps:
    """Return the steps of `part`, with the work beyond the `baseline` (ranks,) by phase."""
    work = np.sum([part.planes[name] for name in WORK], axis=0, dtype=np.float64)
    usual_work = np.sum([baseline[name] for name in WORK], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.fmax(1.0, np.median(work / usual_work, axis=1))
    return Steps(part.steps, step_seconds(part), slowdown, work - usual_work)


def _find_lasting(context: DetectionContext) -> list[Finding]:
    course, limits = context.course, context.thresholds(LIMITS)
    if course is None:
        return []
    growth = grown_in_collectives(course, limits) or longer_than_elsewhere(
        context,
        course.least_wait,
        lambda reference: longer_in_collectives(course, reference, limits),
    )
    if growth is None:
        findings = detect_always(course, limits)
    else:
        findings = [finding_of(growth, "collectives on all ranks", "least wait in collectives")]
    return [finding._replace(subject=_largest(context)) for finding in findings]


def longer_than_elsewhere(
    context: DetectionContext, waited: Vector, longer: Callable[[Elsewhere], Growth | None]
) -> Growth | None:
    """Return the result of `longer` for the first other run that waited less.

    The `waited` seconds (buckets,) must be worth a comparison.
    """
    course, limits = context.course, context.thresholds(LIMITS)
    if course is None or waited.sum() < limits.least_lost_ratio * course.seconds.sum():
        return None
    return next(filter(None, map(longer, context.once(known_elsewhere))), None)


def known_elsewhere(context: DetectionContext) -> list[Elsewhere]:
    """Return the initial waits of an earlier attempt, and the longest ones of comparable jobs.

    Both are from runs with the same work. Both are needed: an earlier attempt may have had the same
    slow link.
    """
    first, clock = context.first_steps, context.window.clock
    beginning = beginning_of(context.attempt, clock)
    if beginning is None or (clock == HOST and first.hosts_ahead):
        return []
    references: list[Elsewhere] = []
    earlier = None if first.attempt is context.attempt else beginning_of(first.attempt, clock)
    if earlier is not None and earlier.is_like(beginning):
        references.append(
            Elsewhere(earlier.waits, f"attempt {first.attempt.number}", beginning.waits)
        )
    alike = context.class_throughput.alike(context.job.name, beginning)
    if len(alike) >= context.thresholds(THROUGHPUT).class_jobs:
        longest = UsualWaits(*np.max(alike, axis=0).tolist())
        references.append(Elsewhere(longest, f"{len(alike)} jobs of its class", beginning.waits))
    return references


def _largest(context: DetectionContext) -> str:
    """Return the group that passes most bytes, by its first steps.

    The clear check also names this group while it is slow, so an incident keeps its subject. Before
    the first steps are known, the newest steps count: a link may be slow from the beginning.
    """
    calls, groups = context.baseline.calls, context.attempt.collective_records.groups
    sizes = bytes_of(calls) or _newest_bytes(context)
    sizes = {key: size for key, size in sizes.items() if key[0] in groups}
    if not sizes:
        return ""
    largest = max(sizes, key=lambda key: (sizes[key], key))
    return subject_of(largest, groups, sizes)


def _newest_bytes(context: DetectionContext) -> dict[Key, float]:
    """Return the bytes a rank passed in each group and operation, median over the newest steps."""
    window = context.window
    steps = window.steps[usable_steps(window)][-context.thresholds(LIMITS).window_steps :]
    if not len(steps):
        return {}
    calls = collectives_on(context.attempt, window.clock)
    rows = calls.of_steps(int(steps[0]), int(steps[-1]))
    names = rows["group"].astype(np.int64) << 16 | rows["op"]
    return {
        (name >> 16, name & 0xFFFF): float(np.median(rows["bytes"][names == name]))
        for name in np.unique(names).tolist()
    }
