"""Steps that leave the memory keep their place in curves and in device-time."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.slo.closing import Limits, attempt_steps, close_old
from stepwatch.collector.slo.registry import discover
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.slo.standing import standing
from stepwatch.collector.slo.waste import CAUSES, Spent
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.snapshot import put_together, taken_apart
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.web.history.asked import Range
from stepwatch.collector.web.history.curves import CURVES, Curves, Name
from stepwatch.collector.web.history.points import Points
from stepwatch.collector.web.history.spent import SPENT, spent_document
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.made import EPOCH, JOB, lifecycle_rows, run_segments, segment

STEPS, WORLD, SECONDS = 3000, 2, 4.0
END_S = EPOCH + STEPS * SECONDS
FEW = Limits(retained=200, more=20, incomplete=1000, single=1 << 20)
ALL = Limits(retained=1 << 20)


def folded(limits: Limits, resumed_at: int | None = None) -> LiveJob:
    """A run whose old steps were dropped within limits, and the start of its resume."""
    job = LiveJob(JOB)
    for item in run_segments(STEPS, WORLD, SECONDS):
        job.append(item, Received(END_S, 0.0))
    job.fold()
    close(job, limits)
    if resumed_at is not None:
        rows = [
            lifecycle_rows(event, range(WORLD), value, STEPS * SECONDS)
            for event, value in ((LifecycleEvent.START, WORLD), (LifecycleEvent.RESUME, resumed_at))
        ]
        table = {Kind.LIFECYCLE: np.concatenate(rows)}
        job.apply(segment(1, table, attempt=1), Received(END_S, 0.0))
    return put_together(taken_apart(job))  # type: ignore[no-any-return]


def close(job: LiveJob, limits: Limits) -> None:
    attempts = attempt_steps(job)
    running = [RunningSlices(sli) for sli in discover().values()]
    for slices in running:
        slices.accept(slices.changed(attempts, standing(job, attempts)))
    close_old(job, running, attempts, limits)


def curve(job: LiveJob, name: str) -> Points:
    made = CURVES.finish(CURVES.make(job, Verdicts(), END_S))
    assert isinstance(made, Curves)
    return made.points(Name(name))


def by_cause(job: LiveJob, points: int = 600) -> dict[str, list[float]]:
    asked = Range(-np.inf, np.inf, points)
    document = spent_document(SPENT.make(job, Verdicts(), END_S), asked)
    return {
        cause: [float(value) for value in text[1:-1].replace("null", "0").split(",")]
        for cause, text in document["causes"].items()
    }


def test_curves_hold_all_steps_at_the_finest_level_that_has_them() -> None:
    job = folded(FEW)
    steps = job.current.steps.history
    assert steps.dropped.count > 2000
    points = curve(job, "step_seconds")
    assert points.weight.sum() == STEPS
    assert {*points.seconds.tolist()} == {0, 10, 60}
    assert (np.diff(points.step) > 0).all()
    assert (points.first_step[1:] == points.step[:-1] + 1).all()
    assert points.mean == pytest.approx(SECONDS)
    rates = curve(job, "tokens_per_second")
    assert rates.mean == pytest.approx(WORLD * 100 / SECONDS)


def test_device_time_is_the_same_with_and_without_memory() -> None:
    kept, dropped = by_cause(folded(ALL)), by_cause(folded(FEW))
    for cause, seconds in kept.items():
        assert sum(dropped[cause]) == pytest.approx(sum(seconds), rel=1e-4, abs=1e-2), cause
    whole = [sum(column) for column in zip(*dropped.values(), strict=True)]
    assert whole[1:-1] == pytest.approx([WORLD * 30.0] * (len(whole) - 2), rel=0.02)


def test_redone_steps_leave_the_curves_and_are_redone_time() -> None:
    job = folded(FEW, resumed_at=1000)
    points = curve(job, "step_seconds")
    assert 900 < points.step.max() < 1000
    spent = by_cause(job)
    assert [*spent] == [str(cause) for cause in CAUSES]
    redone, productive = sum(spent[Spent.REDONE]), sum(spent[Spent.PRODUCTIVE])
    assert productive == pytest.approx(1000 * SECONDS * WORLD * 0.75, rel=0.05)
    assert redone > 0.7 * 2000 * SECONDS * WORLD
