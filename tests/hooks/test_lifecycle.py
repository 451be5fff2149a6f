"""Tests for the life of a rank as its ring holds it: start, resume, first step, end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import LifecycleEvent

from .conftest import life_in, only_ring


def test_a_rank_that_was_asked_to_stop_did_not_finish(watch: Watch, rings: Path) -> None:
    watch.preempted()
    watch.close()
    last = life_in(rings)[-1]
    assert (last["event"], last["text"]) == (LifecycleEvent.INTERRUPT, b"preempted")


def test_the_life_of_a_rank_is_recorded(watch: Watch, rings: Path) -> None:
    watch.resumed(from_step=40, checkpoint="step-40")
    watch.start_at(40)
    with watch.step():
        pass
    watch.preempted()
    watch.finish()
    watch.close()
    rows = life_in(rings)
    events = [(LifecycleEvent(int(row["event"])).name, int(row["value"])) for row in rows]
    assert events == [
        ("START", 1),
        ("RESUME", 40),
        ("FIRST_STEP", 40),
        ("PREEMPTION", 41),
        ("FINISH", 41),
    ]
    assert rows["text"][1] == b"step-40"
    assert only_ring(rings).identity.pid == os.getpid()


@pytest.mark.parametrize(("first", "resumes"), [(0, []), (1, []), (2, [2]), (40, [40])])
def test_a_first_step_beyond_one_is_a_resume(
    watch: Watch, rings: Path, first: int, resumes: list[int]
) -> None:
    """Loops count from 0 or 1, in their own numbers or by `start_at`; later jumps are no resume."""
    for number in (first, first + 1, first + 10):
        with watch.step(number=number):
            pass
    watch.start_at(first + 20)
    with watch.step():
        pass
    rows = life_in(rings)
    assert rows["value"][rows["event"] == LifecycleEvent.RESUME].tolist() == resumes


def test_a_resume_is_recorded_before_its_first_step_ends(watch: Watch, rings: Path) -> None:
    """So an attempt that fails before it has a resume that failed."""
    watch.start_at(40)
    watch.start_at(40)
    rows = life_in(rings)
    assert rows["value"][rows["event"] == LifecycleEvent.RESUME].tolist() == [40]
