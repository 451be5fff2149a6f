"""Inputs for the check of transfers between pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import (
    STAGE_WORK,
    known_stages,
    self_time,
)
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.signals.arrays import Integers, Matrix, SmallIntegers, Vector
from stepwatch.signals.records import Op
from stepwatch.signals.wire import Rows

from .elsewhere import detect_stages_elsewhere, may_be_slower
from .inputs import known_elsewhere
from .lasting_stages import finding_of, grown_wait
from .schedule_wait import microbatches_by, schedule_wait
from .stage_transfers import (
    Pair,
    Waiting,
    detect_between_stages,
    names_of,
    slow_pair,
)
from .thresholds import LIMITS, Thresholds

_AROUND = tuple(name for name in WORK if name not in STAGE_WORK)
"""Phases that all stages run at the same time, before and after the microbatches pass.

The stages wait for the last one to begin, so for all together the wait is its excess over the mean.
"""


def find_between_stages(context: DetectionContext) -> list[Finding]:
    """Return findings on pipeline stages that wait for transfers, not for each other's work."""
    findings = _clear(context) or _beyond_schedule(context) or _lasting(context)
    return [context.dated(with_clock(context, finding)) for finding in findings]


def _clear(context: DetectionContext) -> list[Finding]:
    waiting, limits = _waiting(context), context.thresholds(LIMITS)
    if waiting is None:
        return []
    findings = detect_between_stages(waiting, limits)
    if findings:  # only a finding justifies a look at every pair of ranks
        sends = _sends(context, waiting.numbers, waiting.ranks)
        findings = detect_between_stages(waiting._replace(sends=sends), limits)
    return findings


def _beyond_schedule(context: DetectionContext) -> list[Finding]:
    """Return findings on waits beyond the work and the schedule, whatever they were before.

    Ranks that are blocked in sends meanwhile show that the transfer is the cause.
    """
    window, limits = context.window, context.thresholds(LIMITS)
    stages = known_stages(window)
    chosen = np.flatnonzero(usable_steps(window))
    if len(stages) < 2 or not context.compares_ranks or len(chosen) < limits.certain_few_steps:
        return []
    newest = window.at(chosen[-limits.window_steps :])
    rows = _send_rows(context, newest.steps)
    if not len(rows):
        return []
    schedule = context.attempt.lifecycle.schedule
    ideal = None if schedule is None else schedule.ideal_bubble_ratio
    microbatches = microbatches_by(ideal, len(stages), rows)
    waiting = _beyond(newest, stages, microbatches, limits)
    if not detect_between_stages(waiting, limits):  # nearly always
        return []
    ranks = _ranks_of(window)
    sends = _sends(context, newest.steps, ranks)
    if max(sends.values(), default=0.0) < limits.blocked_ratio * float(np.median(waiting.seconds)):
        return []
    waiting = _beyond(window.at(chosen), stages, microbatches, limits)
    return detect_between_stages(waiting._replace(sends=sends, ranks=ranks), limits)


def _beyond(
    part: Window, stages: Sequence[int], microbatches: float, limits: Thresholds
) -> Waiting:
    """Return the waits in some steps, with the wait that the schedule derives from their work."""
    may = schedule_wait(part, stages, microbatches)
    usual = float(np.median(may[-limits.window_steps :]))
    wait = part.planes["pipeline_wait"].mean(axis=1, dtype=np.float64)
    return Waiting(part.steps, step_seconds(part), wait, may - usual, usual, {}, {}, "its schedule")


def _lasting(context: DetectionContext) -> list[Finding]:
    """Return findings on waits that have grown too little for any one step, for minutes."""
    window, limits = context.window, context.thresholds(LIMITS)
    stages = known_stages(window)
    if context.course is None or len(stages) < 2 or not context.compares_ranks:
        return []
    grown = grown_wait(context.course, window.stage, limits)
    numbers = window.steps[usable_steps(window)]
    if len(numbers) < limits.window_steps:
        return []
    beyond = _elsewhere(context, context.course) if grown is None else None
    if grown is None and beyond is None:
        return []
    ranks = _ranks_of(window)
    pair = slow_pair(_sends(context, numbers, ranks), limits)
    if grown is not None:
        return [finding_of(grown, pair, ranks)]
    assert beyond is not None
    return [beyond._replace(subject=names_of(pair, ranks)[0])]


def _elsewhere(context: DetectionContext, course: Course) -> Finding | None:
    """Return the finding on waits that exceed an earlier attempt's, or other jobs' in the class."""
    limits = context.thresholds(LIMITS)
    if not may_be_slower(course, course.pipeline_wait, limits):
        return None
    stage, references = context.window.stage, context.once(known_elsewhere)
    findings = (
        detect_stages_elsewhere(course, stage, reference, limits) for reference in references
    )
    return next(filter(None, findings), None)


def _ranks_of(window: Window) -> dict[int, list[int]]:
    """Return each stage's ranks."""
    return {
        number: np.flatnonzero(window.stage == number).tolist() for number in known_stages(window)
    }


def _waiting(context: DetectionContext) -> Waiting | None:
    """Return the ranks' waits for neighbours; None without stages, or without a baseline."""
    window, limits = context.window, context.thresholds(LIMITS)
    stages = known_stages(window)
    if len(stages) < 2 or not context.compares_ranks:
        return None
    chosen = np.flatnonzero(usable_steps(window))
    baseline = context.baseline.work_of(len(window.stage))
    early_wait = context.early_baseline.get("pipeline_wait")
    if early_wait is None or len(chosen) < limits.window_steps:
        return None
    if any(name not in baseline or np.isnan(baseline[name]).any() for name in WORK):
        return None
    newest = float(window.planes["pipeline_wait"][chosen[-1]].mean(dtype=np.float64))
    if newest < limits.wait_ratio * float(np.median(early_wait)):
        return None  # a look at one row, which is nearly always enough
    part = window.at(chosen)
    waiting = Waiting(
        numbers=part.steps,
        seconds=step_seconds(part),
        wait=part.planes["pipeline_wait"].mean(axis=1, dtype=np.float64),
        more=_longest(_longer(part, STAGE_WORK, baseline), part.stage, stages).sum(axis=1),
        usual=float(np.median(early_wait)),
        sends={},
        ranks=_ranks_of(window),
    )
    if not detect_between_stages(waiting, limits):  # nearly always
        return None
    around = _lasting_longest(_longer(part, _AROUND, baseline), part.stage, stages, limits)
    return waiting._replace(more=waiting.more + around.max(axis=1) - around.mean(axis=1))


def _longer(part: Window, phases: tuple[str, ...], baseline: Mapping[str, Vector]) -> Matrix:
    """Return the seconds (steps, ranks) each rank works longer than in the run's first steps."""
    baseline_work = np.sum([baseline[name] for name in phases], axis=0)[None, :]
    return np.asarray(np.maximum(self_time(part, phases) - baseline_work, 0.0))


def _longest(longer: Matrix, stage: SmallIntegers, stages: Sequence[int]) -> Matrix:
    """Return the excess of each stage's slowest rank (steps, stages).

    The other stages wait for this rank.
    """
    slowest = [longer[:, stage == number].max(axis=1) for number in stages]
    return np.stack(slowest, axis=1)


def _lasting_longest(
    longer: Matrix, stage: SmallIntegers, stages: Sequence[int], limits: Thresholds
) -> Matrix:
    """Return the excess of each stage's slowest rank in the newest steps (steps, stages).

    The maximum over many ranks would pick a different rank in each step, by chance.
    """
    usual = np.median(longer[-limits.window_steps :], axis=0)
    members = [np.flatnonzero(stage == number) for number in stages]
    return longer[:, [int(ranks[np.argmax(usual[ranks])]) for ranks in members]]


def _sends(
    context: DetectionContext, numbers: Integers, ranks: Mapping[int, list[int]]
) -> dict[Pair, float]:
    """Return for how long ranks of each stage pair were blocked in sends, in seconds per step.

    The newest of the steps `numbers` count. A sender on a slow link is blocked until the transfer
    is over; a receiver of late data is not.
    """
    stage_of = {rank: stage for stage, members in ranks.items() for rank in members}
    calls = collectives_on(context.attempt, context.window.clock)
    newest = numbers[-context.thresholds(LIMITS).window_steps :]
    first, last = int(newest[0]), int(newest[-1])
    rows = _send_rows(context, numbers)
    every, where = np.unique(rows["group"], return_inverse=True)
    blocked = np.bincount(where, weights=rows["exposed"], minlength=len(every))
    sends: dict[Pair, float] = {}
    for number, seconds in zip(every.tolist(), blocked.tolist(), strict=True):
        group = calls.groups.get(number)
        members = None if group is None else members_of(group.ranks)
        if members is None or len(members) != 2 or not members <= stage_of.keys():
            continue
        low, high = sorted(stage_of[rank] for rank in members)
        if high == low + 1:
            sends[low, high] = max(sends.get((low, high), 0.0), seconds / (last - first + 1))
    return sends


def _send_rows(context: DetectionContext, numbers: Integers) -> Rows:
    """Return the sends in the newest of the steps `numbers`."""
    calls = collectives_on(context.attempt, context.window.clock)
    newest = numbers[-context.thresholds(LIMITS).window_steps :]
    rows = calls.of_steps(int(newest[0]), int(newest[-1]))
    sent: Rows = rows[rows["op"] == Op.SEND]
    return sent
