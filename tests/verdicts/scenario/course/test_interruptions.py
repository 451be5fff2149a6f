"""Tests for faults that end: each kind leaves the job as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.verdicts.scenario.course.interruptions import Interruptions
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.examples import JOB, with_fault
from tests.verdicts.scenario.plan import SLOWING, FaultKind, Pauses, Scenario, Shape

_SHAPES = {FaultKind.SLOW_STAGE_LINK: Shape.PIPELINE}
_EFFECTS = {FaultKind.STOPPED_NOW_AND_THEN: 0.4}


def step_seconds(scenario: Scenario, after: float, until: float) -> list[float]:
    """Return the duration of each step that begins between two seconds."""
    return [
        float(step.end.max() - step.began.max())
        for step in Timeline(scenario).steps()
        if after <= float(step.began.max()) < until
    ]


@pytest.mark.parametrize("kind", sorted(SLOWING), ids=str)
def test_steps_after_a_fault_are_those_of_a_job_without_it(kind: FaultKind) -> None:
    faulty = with_fault(kind, 1, effect=_EFFECTS.get(kind, 2.0), seconds=30.0)
    pauses = Pauses(every=5, seconds=1.0)
    shape = _SHAPES.get(kind, Shape.DDP)
    faulty = replace(faulty, shape=shape, saves=pauses, seconds=150.0)
    healthy = replace(faulty, faults=())
    slowed, usual = (np.sum(step_seconds(job, 50.0, 80.0)) for job in (faulty, healthy))
    slow_count, usual_count = (len(step_seconds(job, 50.0, 80.0)) for job in (faulty, healthy))
    assert slowed / slow_count > 1.1 * usual / usual_count  # the fault does something
    later, usual_later = (step_seconds(job, 90.0, 140.0) for job in (faulty, healthy))
    assert sum(later) / len(later) == pytest.approx(sum(usual_later) / len(usual_later), rel=0.05)


def test_a_process_that_was_stopped_for_a_while_was_idle_for_that_while() -> None:
    scenario = with_fault(FaultKind.STOPPED_NOW_AND_THEN, 1, effect=0.4, seconds=10.0)
    interruptions = Interruptions(scenario, JOB.ranks)
    assert interruptions.idle_seconds(1, 300.0) == pytest.approx(4.0)
    ends = interruptions.end_of_work(np.full(4, 100.0), np.full(4, 5.0))
    assert ends.tolist() == [105.0] * 4
