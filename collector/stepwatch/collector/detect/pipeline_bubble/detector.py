"""Pipeline bubble: ranks idle because one stage works longer, or because microbatches are few.

A stage's work is its forward and backward time, the low median over its ranks: a single slow rank
among peers does not raise it (that is a straggler), all ranks together do. A rank alone in its
stage that becomes slow is a straggler, too; it counts here only if it was slow from the first
steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import (
    STAGE_WORK,
    bubble_ratio,
    known_stages,
    self_time,
    stage_work,
)
from stepwatch.collector.analysis.stage_change import GrownStage
from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.detect.peers import without_each
from stepwatch.collector.detect.rare_stages import RareStage
from stepwatch.collector.detect.steps import (
    exceeds,
    first_of_run,
    is_certain,
    is_persistent,
    step_seconds,
    usable_steps,
)
from stepwatch.collector.detect.straggler.thresholds import LIMITS as RANKS
from stepwatch.collector.detect.straggler.thresholds import Thresholds as RankThresholds
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import numbers_text, ranks_text


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a bubble that is too large.

    A stage that has become slower is judged as a slow rank is: by the straggler's thresholds.
    """

    limiting_ratio: float = 0.6
    """Ratio: a stage limits the pipeline from this part of the slowest stage's work. Two may, on
    one slow node; they are named together from this part of the largest excess.
    """
    built_in_ratio: float = 2.0
    """Ratio: an imbalance that the model came with is reported only if it is large, and if the
    first steps showed the ratio of a slow rank. An embedding or a head is often 1.5 times the work
    of a layer's stage, and this is known.
    """
    beyond_ideal: float = 0.1
    """Share: imbalance shows as a bubble this far beyond the schedule's ideal; a closer bubble is
    the schedule's own. Ranks that share cores show up to a tenth.
    """
    few_ideal_ratio: float = 0.4
    """Share: a schedule that wastes this much by itself has too few microbatches. With p stages and
    m microbatches the bubble is (p - 1) / (m + p - 1), 0.43 at m = p; common advice is m >= 4 p,
    which is below 0.2.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


class _Stages(NamedTuple):
    """Work of stages `numbers` in planes (steps, stages) of seconds, with the other stages' work.

    `usual` (stages,) is the ratio between a stage's work and the others' in the run's first steps;
    `expected` is that ratio's work beside the other stages. `size` (stages,) counts the ranks.
    """

    numbers: list[int]
    size: Integers
    work: Matrix
    other_work: Matrix
    usual: Vector
    expected: Matrix
    seconds: Vector

    def against(self, is_built_in: bool) -> Matrix:
        """Return the work (steps, stages) with which a stage's work is compared."""
        return self.other_work if is_built_in else self.expected


def detect(
    window: Window,
    baseline: Mapping[str, Vector],
    ideal: float | None,
    limits: Thresholds,
    lasting: Sequence[GrownStage] = (),
    rare: Sequence[RareStage] = (),
    of_ranks: RankThresholds = RANKS,
) -> list[Finding]:
    """Return at most one finding on the newest steps of `window`.

    `baseline` maps a phase to the seconds per step (ranks,) in the run's first steps; without it
    there is no finding. `ideal` is the bubble that the schedule cannot avoid, None if unknown.
    `lasting` stages are known to be slower than before, however little. `rare` stages are known to
    be slow occasionally. `of_ranks` are the thresholds for a slow rank.
    """
    chosen = np.flatnonzero(usable_steps(window))
    if len(chosen) < of_ranks.window_steps or len(known_stages(window)) < 2:
        return []
    if any(name not in baseline or np.isnan(baseline[name]).any() for name in STAGE_WORK):
        return []
    recent = window.select(chosen[-of_ranks.window_steps :])
    measured = bubble_ratio(recent)
    if measured is None:
        return []
    if ideal is None or measured >= ideal + limits.beyond_ideal:
        stages = _stages(recent, baseline)
        for is_built_in, named in ((False, _grown), (True, _built_in)):
            columns = np.flatnonzero(named(stages, limits, of_ranks)).tolist()
            if columns:
                numbers = [stages.numbers[column] for column in columns]
                whole = _stages(window.select(chosen), baseline)
                slow = _slow(whole, is_built_in, limits, of_ranks)[:, columns[0]]
                since = first_of_run(slow)  # the first stage's, the same one each time
                against = whole.against(is_built_in)[since:, columns[0]]
                return [
                    _imbalance(window.select(chosen[since:]), numbers, against, baseline, ideal)
                ]
    peers = {number: int((window.stage == number).sum()) > 1 for number in known_stages(window)}
    costly_rare = [stage for stage in rare if _is_costly(stage, peers, of_ranks)]
    costly = [stage for stage in lasting if _is_costly(stage, peers, of_ranks)]
    if costly_rare:
        return [_now_and_then(costly_rare, baseline, ideal)]
    if costly:
        return [_lasting(costly[0], window.select(chosen), baseline, ideal)]
    return _few_microbatches(recent, measured, ideal, limits)


def _is_costly(
    stage: GrownStage | RareStage, peers: Mapping[int, bool], of_ranks: RankThresholds
) -> bool:
    """Return whether a stage with several ranks costs enough; a rank alone is a straggler."""
    return stage.lost >= of_ranks.least_lost_ratio and peers.get(stage.stage, False)


def _stages(window: Window, baseline: Mapping[str, Vector]) -> _Stages:
    numbers, size = np.unique(window.stage, return_counts=True)
    work = stage_work(self_time(window, STAGE_WORK), window.stage)
    baseline_work = np.sum([baseline[name] for name in STAGE_WORK], axis=0)[None, :]
    earlier = stage_work(baseline_work, window.stage)
    other_work, against = (_median_of_others(plane) for plane in (work, earlier))
    usual = np.divide(earlier, against, out=np.full_like(against, np.nan), where=against > 0)[0]
    expected = other_work * np.maximum(usual, 1.0)
    return _Stages(numbers.tolist(), size, work, other_work, usual, expected, step_seconds(window))


def _median_of_others(work: Matrix) -> Matrix:
    """Return for each (step, stage) the low median of the other stages: half of all may be slow.

    Work 7, 7, 1, 1 -> 1, 1, 7, 7.
    """
    return np.asarray(without_each(work, np.sort(work, axis=1), (work.shape[1] - 2) // 2))


def _slow(
    stages: _Stages, is_built_in: bool, limits: Thresholds, of_ranks: RankThresholds
) -> MaskMatrix:
    """Return where (steps, stages) a stage limits the pipeline, as it works so much longer."""
    # One node's stages may all be limiting: the longest one among them is chance.
    limiting = stages.work >= limits.limiting_ratio * stages.work.max(axis=1, keepdims=True)
    ratio = limits.built_in_ratio if is_built_in else of_ranks.least_ratio
    against = stages.against(is_built_in)
    least = of_ranks.least_excess_ratio
    return np.asarray(limiting & exceeds(stages.work, against, stages.seconds, ratio, least))


def _grown(stages: _Stages, limits: Thresholds, of_ranks: RankThresholds) -> Mask:
    """Return the stages with several ranks that work longer than the others, and than before.

    Stages that are nearly as far beyond are named with them.
    """
    slow = _slow(stages, False, limits, of_ranks).T
    named = is_persistent(slow, of_ranks.window_steps, of_ranks.least_steps)
    named |= is_certain(slow, stages.work.T, stages.expected.T, stages.seconds)
    named &= stages.size > 1
    if named.any():
        means = (stages.work - stages.expected).mean(axis=0)
        named |= (means >= limits.limiting_ratio * means.max()) & (means > 0) & (stages.size > 1)
    return np.asarray(named)


def _built_in(stages: _Stages, limits: Thresholds, of_ranks: RankThresholds) -> Mask:
    """Return the stages that work far longer than the others, and did so from the beginning."""
    slow = _slow(stages, True, limits, of_ranks).T
    named = is_persistent(slow, of_ranks.window_steps, of_ranks.least_steps)
    return np.asarray(named & (stages.usual >= of_ranks.least_ratio))


def _now_and_then(
    rare: Sequence[RareStage], baseline: Mapping[str, Vector], ideal: float | None
) -> Finding:
    """Return the finding on stages that are slow in some steps, from these steps."""
    first = min(rare, key=lambda stage: stage.stage)  # the same one each time, if there are several
    part, numbers = first.window.select(first.hits), sorted(stage.stage for stage in rare)
    stages = _stages(part, baseline)
    against = stages.expected[:, stages.numbers.index(first.stage)]
    finding = _imbalance(part, numbers, against, baseline, ideal, first.lost)
    often = f"in {len(first.hits)} of {len(first.window.steps) - first.hits[0]} steps since then"
    return finding._replace(summary=f"{finding.summary}; {often}")


def _lasting(
    grown: GrownStage, window: Window, baseline: Mapping[str, Vector], ideal: float | None
) -> Finding:
    """Return the finding on a stage whose work has grown slightly, for minutes."""
    since = min(int(np.searchsorted(window.steps, grown.first_step)), len(window.steps) - 1)
    part = window.select(np.arange(since, len(window.steps)))
    stages = _stages(part, baseline)
    against = stages.other_work[:, stages.numbers.index(grown.stage)] * grown.change.earlier_level
    finding = _imbalance(part, [grown.stage], against, baseline, ideal, grown.lost)
    return finding._replace(began_step=grown.first_step)


def _imbalance(
    part: Window,
    numbers: Sequence[int],
    against: Vector,
    baseline: Mapping[str, Vector],
    ideal: float | None,
    lost: float | None = None,
) -> Finding:
    """Return the finding that the stages `numbers` are too slow in all of `part`.

    The figures are the first stage's; `against` (steps,) is its expected work. It costs the
    throughput share `lost`, computed from its excess by default.
    """
    stages = _stages(part, baseline)
    column = stages.numbers.index(numbers[0])
    members = np.flatnonzero(np.isin(part.stage, numbers))
    subject = f"{'stage' if len(numbers) == 1 else 'stages'} {numbers_text(numbers)}"
    work, other_work = (
        float(np.median(plane[:, column])) for plane in (stages.work, stages.other_work)
    )
    excess = work - float(np.median(against))
    if lost is None:
        lost = min(1.0, max(0.0, excess / float(np.median(stages.seconds))))
    phase = _worst_phase(part, members, baseline)
    first, usual = int(part.steps[0]), float(stages.usual[column])
    ratio = work / other_work if other_work > 0 else float("inf")
    summary = (
        f"{subject} ({ranks_text(members.tolist())}) "
        f"{'limits' if len(numbers) == 1 else 'limit'} the pipeline since step {first}: "
        f"{in_words(work)} of work a step, most in {phase}, the other stages "
        f"{in_words(other_work)} ({times(ratio)}, baseline {usual:.1f}x); "
        f"the job lost {lost:.0%} of its throughput"
    )
    evidence = (
        Evidence(
            "work of the stage per step",
            work,
            "seconds",
            f"other stages {in_words(other_work)}",
            reference=other_work,
        ),
        Evidence(
            "work over the other stages", ratio, "ratio", f"baseline {usual:.0%}", reference=usual
        ),
        _bubble_evidence(bubble_ratio(part), ideal),
    )
    return build_finding(
        kind=FindingKind.PIPELINE_BUBBLE,
        rank=int(members[0]) if len(members) == 1 else NO_RANK,
        phase=phase,
        cause=Cause.STAGE_IMBALANCE,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(stages.seconds.sum()),
        severity=excess,
        ratio=ratio,
        lost_ratio=lost,
        evidence=evidence,
        subject=subject,
    )


def _worst_phase(part: Window, members: Integers, baseline: Mapping[str, Vector]) -> str:
    """Return the phase in which the members grew most, or the longer one if neither grew."""
    now = {name: float(np.median(part.planes[name][:, members])) for name in STAGE_WORK}
    grown = {name: now[name] - float(np.median(baseline[name][members])) for name in STAGE_WORK}
    chosen = grown if max(grown.values()) > max(now.values()) / 4 else now
    return max(chosen, key=lambda name: chosen[name])


def _few_microbatches(
    recent: Window, measured: float, ideal: float | None, limits: Thresholds
) -> list[Finding]:
    """Return the finding that the schedule itself wastes much, and the measurement agrees."""
    if ideal is None or ideal < limits.few_ideal_ratio:
        return []
    if abs(measured - ideal) > limits.beyond_ideal:
        return []
    summary = (
        f"the pipeline waits {measured:.0%} of its time, and its schedule cannot do better than "
        f"{ideal:.0%}: give it more microbatches per step, or fewer stages"
    )
    return [
        build_finding(
            kind=FindingKind.PIPELINE_BUBBLE,
            phase="",
            cause=Cause.FEW_MICROBATCHES,
            summary=summary,
            began_step=int(recent.steps[0]),
            began_ago_seconds=float(step_seconds(recent).sum()),
            severity=measured,
            lost_ratio=measured,
            evidence=(_bubble_evidence(measured, ideal),),
            subject="schedule",
        )
    ]


def _bubble_evidence(measured: float | None, ideal: float | None) -> Evidence:
    """Return a row on the bubble, with the bubble that the schedule cannot avoid."""
    against = "its ideal is unknown" if ideal is None else f"the schedule's ideal {ideal:.0%}"
    value, reference = (float("nan") if part is None else part for part in (measured, ideal))
    return Evidence("bubble", value, "ratio", against, reference=reference)
