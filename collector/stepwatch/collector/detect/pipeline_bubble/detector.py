"""Pipeline bubble: ranks idle because one stage works longer, or because microbatches are few.

The work of a stage is its forward and backward, the low median of its ranks: a single slow rank
among peers does not raise it (that is a straggler), all of them do. A rank alone in its stage that
becomes slow is a straggler, too; here it counts only if it was so from the first steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import (
    STAGE_WORK,
    bubble_ratio,
    known_stages,
    self_time,
    stage_work,
)
from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.detect.peers import median_of_others
from stepwatch.collector.detect.steps import first_of_run, step_seconds, usable_steps
from stepwatch.collector.detect.thresholds import load
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.trackers.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import ranks_text


class Thresholds(NamedTuple):
    """When a bubble is too large; see `thresholds.toml`."""

    window_steps: int
    least_steps: int
    grown_ratio: float
    grown_excess_ratio: float
    built_in_ratio: float
    built_in_excess_ratio: float
    built_in_baseline_ratio: float
    beyond_ideal: float
    few_ideal_ratio: float
    few_close_ratio: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


class Stages(NamedTuple):
    """Work of stages `numbers` in planes (steps, stages) of seconds, beside that of the others.

    `usual` (stages,) is each stage's work over that of the others in the run's first steps; `size`
    (stages,) counts the ranks.
    """

    numbers: list[int]
    size: Integers
    work: Matrix
    others: Matrix
    usual: Vector
    seconds: Vector


class Excess(NamedTuple):
    """Where (steps, stages) a stage is too slow, and beyond what seconds."""

    slow: MaskMatrix
    against: Matrix


def detect(
    window: Window,
    baseline: Mapping[str, Vector],
    ideal: float | None,
    limits: Thresholds,
) -> list[Finding]:
    """At most one finding on the newest steps of `window`.

    `baseline` maps a phase to the seconds per step (ranks,) in the run's first steps; without it
    there is no finding. `ideal` is the bubble that the schedule cannot avoid, None where unknown.
    """
    chosen = np.flatnonzero(usable_steps(window))
    if len(chosen) < limits.window_steps or len(known_stages(window)) < 2:
        return []
    if any(name not in baseline or np.isnan(baseline[name]).any() for name in STAGE_WORK):
        return []
    recent = window.at(chosen[-limits.window_steps :])
    stages = _stages(recent, baseline)
    measured = bubble_ratio(recent)
    if measured is None:
        return []
    beyond = ideal is None or measured >= ideal + limits.beyond_ideal
    for excess_of in (_grown, _built_in):
        named = np.flatnonzero(_is_persistent(excess_of(stages, limits).slow, limits))
        if beyond and len(named):
            worst = int(named[np.argmax(stages.work[:, named].mean(axis=0))])
            whole = _stages(window.at(chosen), baseline)
            excess = excess_of(whole, limits)
            slow = excess.slow[:, worst]
            since = first_of_run(slow)
            part = window.at(chosen[since:])
            return [
                _imbalance(
                    part=part,
                    stages=whole,
                    excess=excess,
                    at=worst,
                    since=since,
                    baseline=baseline,
                    ideal=ideal,
                )
            ]
    return _few_microbatches(recent, measured, ideal, limits)


def _stages(window: Window, baseline: Mapping[str, Vector]) -> Stages:
    work = stage_work(self_time(window, STAGE_WORK), window.stage)
    before = np.sum([baseline[name] for name in STAGE_WORK], axis=0)[None, :]
    earlier = stage_work(before, window.stage)
    against = _others(earlier)
    usual = np.divide(earlier, against, out=np.full_like(against, np.nan), where=against > 0)[0]
    numbers, size = np.unique(window.stage, return_counts=True)
    return Stages(
        numbers=numbers.tolist(),
        size=size,
        work=work,
        others=_others(work),
        usual=usual,
        seconds=step_seconds(window),
    )


def _others(work: Matrix) -> Matrix:
    """For each (step, stage) the median of the other stages."""
    found: Matrix = median_of_others(work[:, None, :])[:, 0, :].astype(np.float64)
    return found


def _grown(stages: Stages, limits: Thresholds) -> Excess:
    """A stage of several ranks works longer than the others, and than in its baseline."""
    against = stages.others * np.maximum(stages.usual, 1.0)
    slow = _exceeds(stages, against, limits.grown_ratio, limits.grown_excess_ratio)
    return Excess(slow & (stages.size > 1), against)


def _built_in(stages: Stages, limits: Thresholds) -> Excess:
    """A stage works far longer than the others, and did from the beginning."""
    ratio = limits.built_in_ratio
    slow = _exceeds(stages, stages.others, ratio, limits.built_in_excess_ratio)
    return Excess(slow & (stages.usual >= limits.built_in_baseline_ratio * ratio), stages.others)


def _exceeds(stages: Stages, against: Matrix, ratio: float, excess_ratio: float) -> MaskMatrix:
    excess = stages.work - against
    limiting = stages.work >= stages.work.max(axis=1, keepdims=True)
    return np.asarray(
        limiting
        & (excess > 0)
        & (stages.work >= ratio * against)
        & (excess >= excess_ratio * stages.seconds[:, None])
    )


def _is_persistent(slow: MaskMatrix, limits: Thresholds) -> Mask:
    return np.asarray((slow.sum(axis=0) >= limits.least_steps) & slow[-1])


def _imbalance(
    part: Window,
    stages: Stages,
    excess: Excess,
    at: int,
    since: int,
    baseline: Mapping[str, Vector],
    ideal: float | None,
) -> Finding:
    """The stage at index `at` is too slow in all of `part`, whose steps begin at row `since`."""
    number, members = stages.numbers[at], np.flatnonzero(part.stage == stages.numbers[at])
    work, others, against = (
        float(np.median(plane[since:, at]))
        for plane in (stages.work, stages.others, excess.against)
    )
    seconds = stages.seconds[since:]
    lost = min(1.0, max(0.0, (work - against) / float(np.median(seconds))))
    phase = _worst_phase(part, members, baseline)
    first, usual = int(part.steps[0]), float(stages.usual[at])
    ratio = work / others if others > 0 else float("inf")
    summary = (
        f"stage {number} ({ranks_text(members.tolist())}) limits the pipeline since step {first}: "
        f"it works {in_words(work)} a step, most in {phase}, the other stages {in_words(others)} "
        f"({times(ratio)}, baseline {usual:.1f}x); the job lost {lost:.0%} of its "
        "throughput"
    )
    evidence = (
        Evidence("work of the stage per step", work, "seconds", f"other stages {in_words(others)}"),
        Evidence("work over the other stages", ratio, "ratio", f"baseline {usual:.0%}"),
        _bubble_evidence(bubble_ratio(part), ideal),
    )
    rank = int(members[0]) if len(members) == 1 else NO_RANK
    return build_finding(
        kind=FindingKind.PIPELINE_BUBBLE,
        rank=rank,
        phase=phase,
        cause=Cause.STAGE_IMBALANCE,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(seconds.sum()),
        severity=work - against,
        ratio=ratio,
        lost_ratio=lost,
        evidence=evidence,
        subject=f"stage {number}",
    )


def _worst_phase(part: Window, members: Integers, baseline: Mapping[str, Vector]) -> str:
    """The phase in which the members grew most; the longer one where neither did."""
    now = {name: float(np.median(part.planes[name][:, members])) for name in STAGE_WORK}
    grown = {name: now[name] - float(np.median(baseline[name][members])) for name in STAGE_WORK}
    chosen = grown if max(grown.values()) > max(now.values()) / 4 else now
    return max(chosen, key=lambda name: chosen[name])


def _few_microbatches(
    recent: Window, measured: float, ideal: float | None, limits: Thresholds
) -> list[Finding]:
    """The schedule itself wastes much, and what is measured is that."""
    if ideal is None or ideal < limits.few_ideal_ratio:
        return []
    if abs(measured - ideal) > limits.few_close_ratio:
        return []
    summary = (
        f"the pipeline waits {measured:.0%} of its time, and its schedule cannot do better than "
        f"{ideal:.0%}: give it more microbatches per step, or fewer stages"
    )
    seconds = step_seconds(recent)
    return [
        build_finding(
            kind=FindingKind.PIPELINE_BUBBLE,
            phase="",
            cause=Cause.FEW_MICROBATCHES,
            summary=summary,
            began_step=int(recent.steps[0]),
            began_ago_seconds=float(seconds.sum()),
            severity=measured,
            lost_ratio=measured,
            evidence=(_bubble_evidence(measured, ideal),),
            subject="schedule",
        )
    ]


def _bubble_evidence(measured: float | None, ideal: float | None) -> Evidence:
    against = "its ideal is unknown" if ideal is None else f"the schedule's ideal {ideal:.0%}"
    return Evidence("bubble", float("nan") if measured is None else measured, "ratio", against)
