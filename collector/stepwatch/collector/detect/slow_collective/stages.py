"""Slow sends and receives between pipeline stages: ranks wait although no stage works longer.

The wait between stages grows with their work, and with the transfer time. The wait that remains
after subtracting all growth in stage work since the run's first steps is the transfer.

    stage 0 works 0.2 s as before, stage 1 too; each waits 0.9 s instead of 0.1 s: 0.8 s transfer

A job that was slow from its first step has another reference: the wait that its work and its
schedule alone explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import STAGE_WORK, known_stages, self_time
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Confidence, Evidence, Finding
from stepwatch.collector.detect.steps import (
    first_of_run,
    is_certain,
    is_persistent,
    step_seconds,
    usable_steps,
)
from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.signals.arrays import Integers, Mask, Matrix, SmallIntegers, Vector
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import Op
from stepwatch.signals.wire import Rows

from .detector import LIMITS, Thresholds
from .inputs import longer_than_elsewhere
from .lasting import Growth, finding_of, grown_between_stages, longer_between_stages

Pair = tuple[int, int]
"""Two neighbouring stages, the lower first."""
_AROUND = tuple(name for name in WORK if name not in STAGE_WORK)
"""Phases that all stages run at the same time, before and after the microbatches pass.

The stages wait for the last one to begin, so for all together the wait is its excess over the mean.
"""


class Waiting(NamedTuple):
    """How long a pipeline's ranks wait for neighbours; arrays (steps,) in seconds.

    `numbers` are the evaluated steps, `seconds` their durations and `wait` the mean over ranks.
    `usual` is the wait by the `reference`, and `more` the growth that the steps' work explains.
    `sends` maps a pair of stages to the blocked send seconds per step, empty if the trainer's sends
    are not visible. `ranks` maps a stage to its ranks.
    """

    numbers: Integers
    seconds: Vector
    wait: Vector
    more: Vector
    usual: float
    sends: Mapping[Pair, float]
    ranks: Mapping[int, list[int]]
    reference: str = "baseline"


def find_between_stages(context: DetectionContext) -> list[Finding]:
    """Return findings on pipeline stages that wait for transfers, not for each other's work."""
    window = context.window
    if len(known_stages(window)) < 2 or not context.compares_ranks:
        return []
    chosen = np.flatnonzero(usable_steps(window))
    if not len(chosen):
        return []
    findings = _clear(context, chosen) or _lasting(context, chosen)
    return [context.dated(with_clock(context, finding)) for finding in findings]


def _clear(context: DetectionContext, chosen: Integers) -> list[Finding]:
    """Return findings on waits beyond the baseline, or beyond the schedule whatever they were.

    Beyond the schedule, ranks that are blocked in sends meanwhile show that the transfer is the
    cause: a wait alone may come from an unknown work order.
    """
    window, limits = context.window, context.thresholds(LIMITS)
    for waiting_in in (_beyond_baseline, _beyond_schedule):
        newest = waiting_in(context, window.select(chosen[-limits.window_steps :]))
        if newest is None or not _is_slow(newest, limits)[0]:  # nearly always
            continue
        sends = _sends(context, newest.numbers, newest.ranks)
        least = limits.least_excess_ratio * float(np.median(newest.seconds))
        if waiting_in is _beyond_schedule and max(sends.values(), default=0.0) < least:
            continue
        waiting = waiting_in(context, window.select(chosen))
        if waiting is not None:
            return detect_between_stages(waiting._replace(sends=sends), limits)
    return []


def _lasting(context: DetectionContext, chosen: Integers) -> list[Finding]:
    """Return findings on waits that have grown too little for any one step, for minutes."""
    course, limits = context.course, context.thresholds(LIMITS)
    stage, ranks = context.window.stage, _ranks_of(context.window)
    if course is None or course.work.shape[2] != len(stage):
        return []
    growth = grown_between_stages(course, stage, limits) or longer_than_elsewhere(
        context,
        course.pipeline_wait,
        lambda reference: longer_between_stages(course, stage, reference, limits),
    )
    if growth is None:
        return []
    return [_finding(growth, _sends(context, context.window.steps[chosen], ranks), ranks, limits)]


def _beyond_baseline(context: DetectionContext, part: Window) -> Waiting | None:
    """Return the waits in some steps, with those in the run's first steps.

    The result is None without these, or if the newest step waits no longer.
    """
    baseline = context.baseline.work_of(len(part.stage))
    early_wait, stages = context.early_baseline.get("pipeline_wait"), known_stages(part)
    if early_wait is None:
        return None
    limits, usual = context.thresholds(LIMITS), float(np.median(early_wait))
    if part.planes["pipeline_wait"][-1].mean(dtype=np.float64) < limits.grown_ratio * usual:
        return None  # nearly always
    if any(name not in baseline or np.isnan(baseline[name]).any() for name in WORK):
        return None
    work = _longest(_longer(part, STAGE_WORK, baseline), part.stage, stages).sum(axis=1)
    around = _lasting_longest(_longer(part, _AROUND, baseline), part.stage, stages, limits)
    more = work + around.max(axis=1) - around.mean(axis=1)
    return _waiting(part, more, usual)


def _beyond_schedule(context: DetectionContext, part: Window) -> Waiting | None:
    """Return the waits in some steps, with the wait that the schedule derives from their work."""
    rows, stages = _send_rows(context, part.steps), known_stages(part)
    if not len(rows):
        return None
    schedule = context.attempt.lifecycle.schedule
    ideal = None if schedule is None else schedule.ideal_bubble_ratio
    may = schedule_wait(part, stages, microbatches_by(ideal, len(stages), rows))
    usual = float(np.median(may[-context.thresholds(LIMITS).window_steps :]))
    return _waiting(part, may - usual, usual)._replace(reference="its schedule")


def _waiting(part: Window, more: Vector, usual: float) -> Waiting:
    wait = part.planes["pipeline_wait"].mean(axis=1, dtype=np.float64)
    return Waiting(part.steps, step_seconds(part), wait, more, usual, {}, _ranks_of(part))


def detect_between_stages(waiting: Waiting, limits: Thresholds) -> list[Finding]:
    """Return at most one finding, about stage transfers; it names the pair if one is slow."""
    is_proven, slow, excess = _is_slow(waiting, limits)
    if not is_proven:
        return []
    since = first_of_run(slow)
    now, grown, seconds, more = (
        float(np.median(series[since:]))
        for series in (waiting.wait, excess, waiting.seconds, waiting.more)
    )
    growth = Growth(
        now=now,
        usual=waiting.usual,
        more=more,
        lost=min(1.0, grown / seconds),
        first_step=int(waiting.numbers[since]),
        seconds=float(waiting.seconds[since:].sum()),
        reference=waiting.reference,
    )
    return [_finding(growth, waiting.sends, waiting.ranks, limits)]


def _is_slow(waiting: Waiting, limits: Thresholds) -> tuple[bool, Mask, Vector]:
    """Return whether waits are too long, in which steps (steps,), and by how many seconds."""
    excess = waiting.wait - waiting.usual - waiting.more
    slow = (excess >= limits.least_excess_ratio * waiting.seconds) & (
        waiting.wait >= limits.grown_ratio * waiting.usual
    )
    often = is_persistent(slow[None, :], limits.window_steps, limits.least_steps)
    usual = np.full((1, len(excess)), waiting.usual)
    certain = is_certain(slow[None, :], waiting.wait[None, :], usual, waiting.seconds)
    return bool(often.any() or certain.any()), slow, excess


def _finding(
    growth: Growth, sends: Mapping[Pair, float], ranks: Mapping[int, list[int]], limits: Thresholds
) -> Finding:
    """Return the finding on a wait; its subject is the same for all pairs.

    The pair may become known late, and the incident stays the same.
    """
    pair = slow_pair(sends, limits)
    place, evidence = "between stages of the pipeline (which pair is not known)", list[Evidence]()
    if pair is not None:
        low, high = pair
        place = f"between stages {low} and {high} ({ranks_text([*ranks[low], *ranks[high]])})"
        blocked = f"blocked in sends between stages {low} and {high} per step"
        against = f"the longest of {len(sends)} pairs"
        evidence.append(Evidence(blocked, sends[pair], "seconds", against))
    return finding_of(
        growth,
        f"transfers {place}",
        "wait for pipeline neighbours",
        subject="pipeline",
        confidence=Confidence.ONE_OF if pair is None else Confidence.LIKELY,
        evidence=tuple(evidence),
    )


def slow_pair(sends: Mapping[Pair, float], limits: Thresholds) -> Pair | None:
    """Return the pair of stages whose sends block far longer than any other pair's."""
    if not sends:
        return None
    worst = max(sends, key=lambda pair: (sends[pair], pair))
    other_seconds = [seconds for pair, seconds in sends.items() if pair != worst]
    stands_out = sends[worst] >= limits.least_ratio * max(other_seconds, default=0.0)
    return worst if sends[worst] > 0 and stands_out else None


def schedule_wait(window: Window, stages: Sequence[int], microbatches: float) -> Vector:
    """Return the seconds (steps,) that ranks wait for other stages on average without transfers.

    With `m` microbatches a step takes no longer than the slowest stage's work, plus each other
    stage's work on one microbatch, for the first to pass through and for the last to follow. Stages
    count by their slowest rank. The other ranks may also wait for work between one rank's passes
    that takes longer than on another, such as loading data.

    Worked example: four stages of 0.2 s each, eight microbatches: a step takes 0.2 + 3 * 0.2 / 8 =
    0.275 s, in which a rank waits 0.075 s.
    """
    work, outside = self_time(window, STAGE_WORK), self_time(window, _AROUND)
    slowest = _longest(work, window.stage, stages)
    longest = slowest.max(axis=1)
    length = longest + (slowest.sum(axis=1) - longest) / max(1.0, microbatches)
    wait: Vector = length - work.mean(axis=1) + outside.max(axis=1) - outside.min(axis=1)
    return wait


def microbatches_by(ideal_bubble_ratio: float | None, stages: int, sends: Rows) -> float:
    """Return the microbatches per step.

    They follow from the unavoidable bubble if it is known, else from the number of sends from one
    rank to another; 1 without either, as if stages worked in turn. A bubble of 3/11 in four stages
    gives eight.
    """
    if ideal_bubble_ratio is not None and 0.0 < ideal_bubble_ratio < 1.0:
        return (stages - 1) * (1.0 - ideal_bubble_ratio) / ideal_bubble_ratio
    return float(np.median(sends["count"])) if len(sends) else 1.0


def _ranks_of(window: Window) -> dict[int, list[int]]:
    """Return each stage's ranks."""
    return {
        number: np.flatnonzero(window.stage == number).tolist() for number in known_stages(window)
    }


def _longer(part: Window, phases: tuple[str, ...], baseline: Mapping[str, Vector]) -> Matrix:
    """Return the seconds (steps, ranks) each rank works longer than in the run's first steps."""
    baseline_work = np.sum([baseline[name] for name in phases], axis=0)[None, :]
    return np.asarray(np.maximum(self_time(part, phases) - baseline_work, 0.0))


def _longest(seconds: Matrix, stage: SmallIntegers, stages: Sequence[int]) -> Matrix:
    """Return the seconds (steps, stages) of each stage's slowest rank: the others wait for it."""
    return np.stack([seconds[:, stage == number].max(axis=1) for number in stages], axis=1)


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
    groups = collectives_on(context.attempt, context.window.clock).groups
    newest = numbers[-context.thresholds(LIMITS).window_steps :]
    rows = _send_rows(context, newest)
    every, where = np.unique(rows["group"], return_inverse=True)
    blocked = np.bincount(where, weights=rows["exposed"], minlength=len(every))
    per_step = blocked / float(newest[-1] - newest[0] + 1)
    sends: dict[Pair, float] = {}
    for number, seconds in zip(every.tolist(), per_step.tolist(), strict=True):
        group = groups.get(number)
        members = None if group is None else members_of(group.ranks)
        if members is None or len(members) != 2 or not members <= stage_of.keys():
            continue
        low, high = sorted(stage_of[rank] for rank in members)
        if high == low + 1:
            sends[low, high] = max(sends.get((low, high), 0.0), seconds)
    return sends


def _send_rows(context: DetectionContext, numbers: Integers) -> Rows:
    """Return the sends in the newest of the steps `numbers`."""
    calls = collectives_on(context.attempt, context.window.clock)
    newest = numbers[-context.thresholds(LIMITS).window_steps :]
    rows = calls.of_steps(int(newest[0]), int(newest[-1]))
    sent: Rows = rows[rows["op"] == Op.SEND]
    return sent
