"""The finding on a stage that limits the pipeline, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import STAGE_WORK, bubble_ratio
from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.arrays import Integers, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import numbers_text, ranks_text


class Stages(NamedTuple):
    """Work of stages `numbers` in planes (steps, stages) of seconds, with the other stages' work.

    `usual` (stages,) is the ratio between a stage's work and the others' in the run's first steps.
    `size` (stages,) counts the ranks.
    """

    numbers: list[int]
    size: Integers
    work: Matrix
    other_work: Matrix
    usual: Vector
    seconds: Vector


class Excess(NamedTuple):
    """Where (steps, stages) a stage is too slow, and the reference seconds."""

    slow: MaskMatrix
    against: Matrix


def imbalance(
    part: Window,
    stages: Stages,
    excess: Excess,
    column: int,
    since: int,
    baseline: Mapping[str, Vector],
    ideal: float | None,
    lost: float | None = None,
    together: Sequence[int] = (),
) -> Finding:
    """Build the finding that the stage at index `column` is too slow in all of `part`.

    The steps of `part` begin at row `since` of `stages`. The stage costs the throughput share
    `lost`, computed from its excess by default. `together` holds the numbers of all slow stages.
    """
    numbers = sorted({stages.numbers[column], *together})
    members = np.flatnonzero(np.isin(part.stage, numbers))
    subject = f"{'stage' if len(numbers) == 1 else 'stages'} {numbers_text(numbers)}"
    work, other_work, against = (
        float(np.median(plane[since:, column]))
        for plane in (stages.work, stages.other_work, excess.against)
    )
    seconds = stages.seconds[since:]
    if lost is None:
        lost = min(1.0, max(0.0, (work - against) / float(np.median(seconds))))
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
            "work of the stage per step", work, "seconds", f"other stages {in_words(other_work)}"
        ),
        Evidence("work over the other stages", ratio, "ratio", f"baseline {usual:.0%}"),
        bubble_evidence(bubble_ratio(part), ideal),
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
        subject=subject,
    )


def _worst_phase(part: Window, members: Integers, baseline: Mapping[str, Vector]) -> str:
    """Return the phase in which the members grew most, or the longer one if neither grew."""
    now = {name: float(np.median(part.planes[name][:, members])) for name in STAGE_WORK}
    grown = {name: now[name] - float(np.median(baseline[name][members])) for name in STAGE_WORK}
    chosen = grown if max(grown.values()) > max(now.values()) / 4 else now
    return max(chosen, key=lambda name: chosen[name])


def bubble_evidence(measured: float | None, ideal: float | None) -> Evidence:
    """Return a row on the bubble, with the bubble that the schedule cannot avoid."""
    against = "its ideal is unknown" if ideal is None else f"the schedule's ideal {ideal:.0%}"
    return Evidence("bubble", float("nan") if measured is None else measured, "ratio", against)
