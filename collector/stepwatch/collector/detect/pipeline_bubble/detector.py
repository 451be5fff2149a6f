"""Pipeline bubble: ranks idle because one stage works longer, or because microbatches are few.

A stage's work is its forward and backward time, the low median over its ranks: a single slow rank
among peers does not raise it (that is a straggler), all ranks together do. A rank alone in its
stage that becomes slow is a straggler, too; it counts here only if it was slow from the first
steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import (
    STAGE_WORK,
    bubble_ratio,
    known_stages,
    self_time,
    stage_work,
)
from stepwatch.collector.analysis.stage_change import GrownStage
from stepwatch.collector.detect.finding import Finding, build_finding
from stepwatch.collector.detect.rare_stages import RareStage
from stepwatch.collector.detect.steps import first_of_run, step_seconds, usable_steps
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.arrays import Mask, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind

from .report import Excess, Stages, bubble_evidence, imbalance


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a bubble that is too large."""

    window_steps: int = 10
    """Steps: the newest ones that are evaluated. As for stragglers, plus a few, because a stage is
    compared with other stages, whose noise differs.
    """
    least_steps: int = 8
    """Steps: how many of these, newest included, must show it."""
    grown_ratio: float = 1.5
    """Ratio: a stage's work over the other stages', relative to the run's first steps. A stage that
    becomes 1.5x slower than the others is beyond the noise of shared hosts, as for stragglers.
    """
    grown_excess_ratio: float = 0.15
    """Share: its excess in the step. Less is not worth acting at night."""
    limiting_ratio: float = 0.6
    """Ratio: a stage limits the pipeline from this part of the slowest stage's work. Two may, on
    one slow node.
    """
    certain_steps: int = 3
    """Steps: few long ones are enough for certainty, if together they take `certain_seconds` and
    each is far above.
    """
    certain_seconds: float = 5.0
    """Seconds: the total of `certain_steps`."""
    certain_few_steps: int = 2
    """Steps: even fewer are enough, if together they take `certain_few_seconds`."""
    certain_few_seconds: float = 8.0
    """Seconds: the total of `certain_few_steps`."""
    certain_ratio: float = 2.5
    """Ratio: how far each of these few steps is above."""
    certain_excess_ratio: float = 0.3
    """Share: the excess in each of these few steps."""
    lasting_lost_ratio: float = 0.05
    """Share: a stage that has grown according to ten minutes, however little, counts from a
    ticket's cost.
    """
    built_in_ratio: float = 2.0
    """Ratio: an imbalance that the model came with is reported only if it is large. An embedding or
    a head is often 1.5 times the work of a layer's stage, and this is known.
    """
    built_in_excess_ratio: float = 0.25
    """Share: the excess of such an imbalance in the step."""
    built_in_baseline_ratio: float = 0.8
    """Share: in the first steps the imbalance was at least this part of `built_in_ratio`; otherwise
    it began later.
    """
    beyond_ideal: float = 0.1
    """Share: imbalance shows as a bubble this far beyond the schedule's ideal. Ranks that share
    cores show up to a tenth.
    """
    few_ideal_ratio: float = 0.4
    """Share: a schedule that wastes this much by itself has too few microbatches. With p stages and
    m microbatches the bubble is (p - 1) / (m + p - 1), 0.43 at m = p; common advice is m >= 4 p,
    which is below 0.2.
    """
    few_close_ratio: float = 0.15
    """Share: the measured bubble is the schedule's own while it is no further than this from the
    ideal.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


def detect(
    window: Window,
    baseline: Mapping[str, Vector],
    ideal: float | None,
    limits: Thresholds,
    lasting: Sequence[GrownStage] = (),
    rare: Sequence[RareStage] = (),
) -> list[Finding]:
    """Return at most one finding on the newest steps of `window`.

    `baseline` maps a phase to the seconds per step (ranks,) in the run's first steps; without it
    there is no finding. `ideal` is the bubble that the schedule cannot avoid, None if unknown.
    `lasting` stages are known to be slower than before, however little. `rare` stages are known to
    be slow occasionally.
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
        slow = _is_persistent(excess_of(stages, limits).slow, limits)
        if excess_of is _grown:
            slow |= _is_certain(stages, limits)
            slow |= slow.any() & _is_like_the_worst(stages)
        named = np.flatnonzero(slow)
        if beyond and len(named):
            worst = int(named[0])  # the same one each time, if there are several
            all_stages = _stages(window.at(chosen), baseline)
            excess = excess_of(all_stages, limits)
            slow = excess.slow[:, worst]
            since = first_of_run(slow)
            part = window.at(chosen[since:])
            return [
                imbalance(
                    part=part,
                    stages=all_stages,
                    excess=excess,
                    column=worst,
                    since=since,
                    baseline=baseline,
                    ideal=ideal,
                    together=[stages.numbers[index] for index in named.tolist()],
                )
            ]
    sizes = {number: int((window.stage == number).sum()) for number in known_stages(window)}
    now_and_then = [
        stage
        for stage in rare
        if stage.lost >= limits.lasting_lost_ratio and sizes.get(stage.stage, 0) > 1
    ]
    if now_and_then:
        return [_now_and_then(now_and_then, baseline, ideal)]
    for grown in lasting:
        if grown.lost >= limits.lasting_lost_ratio and (window.stage == grown.stage).sum() > 1:
            return [_lasting(grown, window.at(chosen), baseline, ideal)]
    return _few_microbatches(recent, measured, ideal, limits)


def _lasting(
    grown: GrownStage,
    window: Window,
    baseline: Mapping[str, Vector],
    ideal: float | None,
) -> Finding:
    """Return the finding on a stage whose work has grown slightly, for minutes."""
    stages = _stages(window, baseline)
    column = stages.numbers.index(grown.stage)
    since = min(int(np.searchsorted(window.steps, grown.first_step)), len(window.steps) - 1)
    against = stages.other_work * grown.change.before
    finding = imbalance(
        part=window.at(np.arange(since, len(window.steps))),
        stages=stages,
        excess=Excess(stages.work > against, against),
        column=column,
        since=since,
        baseline=baseline,
        ideal=ideal,
        lost=grown.lost,
    )
    return finding._replace(began_step=grown.first_step)


def _now_and_then(
    rare: Sequence[RareStage], baseline: Mapping[str, Vector], ideal: float | None
) -> Finding:
    """Return the finding on stages that are slow in some steps, from these steps."""
    first = min(rare, key=lambda stage: stage.stage)  # the same one each time, if there are several
    part = first.window.at(first.hits)
    stages = _stages(part, baseline)
    against = stages.other_work * np.maximum(stages.usual, 1.0)
    finding = imbalance(
        part=part,
        stages=stages,
        excess=Excess(stages.work > against, against),
        column=stages.numbers.index(first.stage),
        since=0,
        baseline=baseline,
        ideal=ideal,
        lost=first.lost,
        together=[stage.stage for stage in rare],
    )
    often = f"in {len(first.hits)} of {len(first.window.steps) - first.hits[0]} steps since then"
    return finding._replace(summary=f"{finding.summary}; {often}")


def _stages(window: Window, baseline: Mapping[str, Vector]) -> Stages:
    work = stage_work(self_time(window, STAGE_WORK), window.stage)
    baseline_work = np.sum([baseline[name] for name in STAGE_WORK], axis=0)[None, :]
    earlier = stage_work(baseline_work, window.stage)
    against = _median_of_other_stages(earlier)
    usual = np.divide(earlier, against, out=np.full_like(against, np.nan), where=against > 0)[0]
    numbers, size = np.unique(window.stage, return_counts=True)
    return Stages(
        numbers=numbers.tolist(),
        size=size,
        work=work,
        other_work=_median_of_other_stages(work),
        usual=usual,
        seconds=step_seconds(window),
    )


def _median_of_other_stages(work: Matrix) -> Matrix:
    """Return for each (step, stage) the low median of the other stages: half of all may be slow.

    Work 7, 7, 1, 1 -> 1, 1, 7, 7.
    """
    ordered, count = np.sort(work, axis=1), work.shape[1]
    middle = (count - 2) // 2
    low, next_up = ordered[:, middle : middle + 1], ordered[:, middle + 1 : middle + 2]
    return np.where(work <= low, next_up, low)


def _grown(stages: Stages, limits: Thresholds) -> Excess:
    """Return where a multi-rank stage works longer than the others, and than its baseline."""
    against = stages.other_work * np.maximum(stages.usual, 1.0)
    slow = _exceeds(stages, against, limits.grown_ratio, limits.grown_excess_ratio, limits)
    return Excess(slow & (stages.size > 1), against)


def _built_in(stages: Stages, limits: Thresholds) -> Excess:
    """Return where a stage works far longer than the others, and did so from the beginning."""
    ratio = limits.built_in_ratio
    slow = _exceeds(stages, stages.other_work, ratio, limits.built_in_excess_ratio, limits)
    return Excess(
        slow & (stages.usual >= limits.built_in_baseline_ratio * ratio), stages.other_work
    )


def _exceeds(
    stages: Stages, against: Matrix, ratio: float, excess_ratio: float, limits: Thresholds
) -> MaskMatrix:
    excess = stages.work - against
    # One node's stages may all be limiting: the longest one among them is chance.
    limiting = stages.work >= limits.limiting_ratio * stages.work.max(axis=1, keepdims=True)
    return np.asarray(
        limiting
        & (excess > 0)
        & (stages.work >= ratio * against)
        & (excess >= excess_ratio * stages.seconds[:, None])
    )


def _is_certain(stages: Stages, limits: Thresholds) -> Mask:
    """Return the stages that are far slower than before in the newest few steps.

    These steps must be long enough together.
    """
    against = stages.other_work * np.maximum(stages.usual, 1.0)
    slow = _exceeds(stages, against, limits.certain_ratio, limits.certain_excess_ratio, limits)
    is_certain = np.zeros(len(stages.numbers), dtype=np.bool_)
    for steps, seconds in (
        (limits.certain_steps, limits.certain_seconds),
        (limits.certain_few_steps, limits.certain_few_seconds),
    ):
        if float(stages.seconds[-steps:].sum()) >= seconds:
            is_certain |= slow[-steps:].all(axis=0)
    return is_certain & (stages.size > 1)


def _is_like_the_worst(stages: Stages) -> Mask:
    """Return the stages whose excess over the others is at least half of the worst stage's."""
    excess = (stages.work - stages.other_work * np.maximum(stages.usual, 1.0)).mean(axis=0)
    return np.asarray((excess >= excess.max() / 2) & (excess > 0) & (stages.size > 1))


def _is_persistent(slow: MaskMatrix, limits: Thresholds) -> Mask:
    return np.asarray((slow.sum(axis=0) >= limits.least_steps) & slow[-1])


def _few_microbatches(
    recent: Window, measured: float, ideal: float | None, limits: Thresholds
) -> list[Finding]:
    """Return the finding that the schedule itself wastes much, and the measurement agrees."""
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
            evidence=(bubble_evidence(measured, ideal),),
            subject="schedule",
        )
    ]
