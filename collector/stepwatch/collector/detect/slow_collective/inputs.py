"""Inputs for the slow-collective detector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.beginnings import beginning_of
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.state.collective_timing import Waits, waits
from stepwatch.collector.state.evidence.step_window import HOST, WORK
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits

from .detector import detect, is_slow_now, may_be_slow
from .elsewhere import Elsewhere, detect_elsewhere, may_be_slower
from .groups import bytes_of, subject_of
from .lasting import detect_lasting
from .thresholds import LIMITS
from .transfers import Key, Steps

RECENT_STEPS = 12
"""Number of steps evaluated each time; only a finding justifies reading further back."""
ROWS_BACK = 1 << 18
"""Number of (step, rank) cells read to date a finding."""


class _Inputs(NamedTuple):
    """The collectives of some steps, and these steps."""

    waits: Waits
    groups: Mapping[int, Group]
    steps: Steps


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on operations whose transfer exceeds their baseline, clearly or for long."""
    findings = _find_clear(context)
    if findings or context.course is None:
        return findings
    course, lasting = context.course, list[Finding]()
    limits = context.thresholds(LIMITS)
    # This runs before the check for transfers that always dominate steps: that check knows less.
    if may_be_slower(course, course.least_wait, limits):
        references = context.once(known_elsewhere)
        found_there = (detect_elsewhere(course, reference, limits) for reference in references)
        lasting = next(filter(None, found_there), [])
    lasting = lasting or detect_lasting(course, limits)
    dated = [context.dated(with_clock(context, finding)) for finding in lasting]
    return [finding._replace(subject=_largest(context)) for finding in dated]


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
    if len(alike) >= context.thresholds(LIMITS).elsewhere_jobs:
        longest = UsualWaits(*np.max(alike, axis=0).tolist())
        references.append(Elsewhere(longest, f"{len(alike)} jobs of its class", beginning.waits))
    return references


def _find_clear(context: DetectionContext) -> list[Finding]:
    if not context.baseline.calls or not _is_slow_now(context):
        return []
    findings = _over(context, RECENT_STEPS)
    if findings:
        back = max(RECENT_STEPS, ROWS_BACK // max(1, context.attempt.world))
        findings = _over(context, back) or findings
    return [context.dated(with_clock(context, finding)) for finding in findings]


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
    steps = window.steps[usable_steps(window)][-RECENT_STEPS:]
    if not len(steps):
        return {}
    calls = collectives_on(context.attempt, window.clock)
    rows = calls.of_steps(int(steps[0]), int(steps[-1]))
    names = rows["group"].astype(np.int64) << 16 | rows["op"]
    return {
        (name >> 16, name & 0xFFFF): float(np.median(rows["bytes"][names == name]))
        for name in np.unique(names).tolist()
    }


def _is_slow_now(context: DetectionContext) -> bool:
    """Return whether an operation is slow in the newest step.

    This reads a twelfth of the rows, which is nearly always enough.
    """
    limits = context.thresholds(LIMITS)
    chosen = np.flatnonzero(usable_steps(context.window))[-1:]
    if not len(chosen):
        return False
    newest = context.window.at(chosen)
    calls, step = collectives_on(context.attempt, newest.clock), int(newest.steps[0])
    newest_waits = waits(calls.of_steps(step, step), calls.groups)
    if not may_be_slow(
        newest_waits, context.baseline.calls, float(step_seconds(newest)[0]), limits
    ):
        return False
    inputs = _inputs(context, 1)
    if inputs is None:
        return False
    return is_slow_now(inputs.waits, context.baseline.calls, inputs.steps, limits)


def _over(context: DetectionContext, newest: int) -> list[Finding]:
    inputs = _inputs(context, newest)
    if inputs is None:
        return []
    limits = context.thresholds(LIMITS)
    return detect(inputs.waits, inputs.groups, context.baseline.calls, inputs.steps, limits)


def _inputs(context: DetectionContext, newest: int) -> _Inputs | None:
    """Return the inputs from the `newest` usable steps.

    The result is None without steps, or without a baseline.
    """
    window = context.window
    chosen = np.flatnonzero(usable_steps(window))[-newest:]
    baseline = context.baseline.work_of(len(window.stage))
    if not len(chosen) or not baseline:
        return None
    part = window.at(chosen)
    work = np.sum([part.planes[name] for name in WORK], axis=0, dtype=np.float64)
    usual_work = np.sum([baseline[name] for name in WORK], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.fmax(1.0, np.median(work / usual_work, axis=1))
    calls = collectives_on(context.attempt, window.clock)
    rows = calls.of_steps(int(part.steps[0]), int(part.steps[-1]))
    steps = Steps(part.steps, step_seconds(part), slowdown, work - usual_work)
    return _Inputs(waits(rows, calls.groups), calls.groups, steps)
