"""Agents are asked to flush less often while evaluations are late, and no longer than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.runtime.pace import PATIENCE, AskedPace
from stepwatch.signals.pacing import MOST_ASKED_SECONDS


def asked(pace: AskedPace, *seconds: float) -> list[float]:
    """What is asked after each of these evaluations."""
    found = []
    for each in seconds:
        pace.evaluated(each)
        found.append(pace.seconds)
    return found


def test_nothing_is_asked_while_evaluations_are_in_time() -> None:
    assert set(asked(AskedPace(), *[0.1, 0.4, 1.9] * 50)) == {0.0}


def test_the_interval_doubles_while_evaluations_are_late_up_to_the_bound() -> None:
    assert asked(AskedPace(), 3.0, 3.0, 3.0, 3.0, 1.0) == [2.0, 4.0, 8.0, 10.0, 10.0]


def test_it_is_taken_back_step_by_step_once_evaluations_are_in_time_for_a_while() -> None:
    pace = AskedPace()
    asked(pace, 3.0, 3.0)
    found = asked(pace, *[0.1] * (2 * PATIENCE))
    assert found == [4.0] * (PATIENCE - 1) + [2.0] * PATIENCE + [0.0]


@given(st.lists(st.floats(0, 100)))
def test_what_is_asked_stays_within_its_bound(seconds: list[float]) -> None:
    assert all(0.0 <= each <= MOST_ASKED_SECONDS for each in asked(AskedPace(), *seconds))
