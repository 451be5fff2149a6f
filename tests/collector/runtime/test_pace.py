"""Agents are asked to flush less often while evaluations are late, and no longer than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.runtime.pace import LATE_ROUNDS, PATIENCE, AskedPace
from stepwatch.signals.pacing import MOST_ASKED_SECONDS


def requested_paces(pace: AskedPace, *seconds: float) -> list[float]:
    """What is asked after each of these evaluations."""
    paces = []
    for duration in seconds:
        pace.evaluated(duration)
        paces.append(pace.seconds)
    return paces


def test_nothing_is_asked_while_evaluations_are_in_time() -> None:
    assert set(requested_paces(AskedPace(), *[0.1, 0.4, 1.9] * 50)) == {0.0}


def test_the_interval_doubles_while_evaluations_are_late_up_to_the_bound() -> None:
    paces = requested_paces(AskedPace(), *[3.0] * (5 * LATE_ROUNDS), 1.0)
    assert paces[LATE_ROUNDS - 1 :: LATE_ROUNDS] == [2.0, 4.0, 8.0, 10.0, 10.0]
    assert paces[-1] == 10.0


def test_fewer_late_evaluations_ask_for_nothing() -> None:
    rounds = [*[3.0] * (LATE_ROUNDS - 1), 1.0] * 20
    assert set(requested_paces(AskedPace(), *rounds)) == {0.0}


def test_it_is_taken_back_step_by_step_once_evaluations_are_in_time_for_a_while() -> None:
    pace = AskedPace()
    requested_paces(pace, *[3.0] * (2 * LATE_ROUNDS))
    paces = requested_paces(pace, *[0.1] * (2 * PATIENCE))
    assert paces == [4.0] * (PATIENCE - 1) + [2.0] * PATIENCE + [0.0]


def test_a_round_with_a_refused_request_is_late() -> None:
    pace, paces = AskedPace(), []
    for _ in range(2 * LATE_ROUNDS):
        pace.refused()
        paces += requested_paces(pace, 0.1)
    assert paces == [0.0] * (LATE_ROUNDS - 1) + [2.0] * LATE_ROUNDS + [4.0]
    assert pace.retry_seconds == 4
    assert AskedPace().retry_seconds == 1


@given(st.lists(st.floats(0, 100)))
def test_what_is_asked_stays_within_its_bound(seconds: list[float]) -> None:
    assert all(
        0.0 <= pace_s <= MOST_ASKED_SECONDS for pace_s in requested_paces(AskedPace(), *seconds)
    )
