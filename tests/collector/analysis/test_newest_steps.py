"""Which of the newest steps are taken apart."""

from __future__ import annotations

import pytest

from stepwatch.collector.analysis.newest_steps import newest_window
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.records import Kind, StepFlag
from tests.collector.made import EPOCH, JOB, segment, state_rows, step_rows

AT = 100.0


def steps_of(count: int) -> list[int]:
    """The newest steps of an attempt of two ranks whose first one compiled."""
    rows = step_rows(range(count), range(2), 0.2)
    rows["flags"][rows["step"] == 0] = StepFlag.FIRST
    job = LiveJob(JOB)
    tables = {Kind.RANK_STATE: state_rows(range(2), 2, AT, count - 1), Kind.STEP: rows}
    job.apply(segment(1, tables), Received(EPOCH, AT))
    window = newest_window(job.current)
    assert {plane.shape[0] for plane in window.planes.values()} == {len(window.steps)}
    return window.steps.tolist()


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [(1, 0, 0), (2, 1, 1), (64, 1, 63), (70, 6, 69)],
    ids=["alone", "the one after it", "as many as fit", "long ago"],
)
def test_the_step_that_compiles_is_not_among_others(count: int, first: int, last: int) -> None:
    steps = steps_of(count)
    assert (steps[0], steps[-1]) == (first, last)
