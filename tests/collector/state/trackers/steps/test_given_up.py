"""A step waits for ranks that have not reported it, and not for ever, however long steps are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.trackers.steps.given_up import (
    GIVE_UP_FEW,
    GIVE_UP_SECONDS,
    GIVE_UP_STEPS,
    complete_or_given_up,
    newest_given_up,
)
from stepwatch.collector.state.trackers.steps.step_history import ROW
from stepwatch.signals.wire import Rows
from tests.collector.made import step_rows

WORLD = 4


def rows(reported: Sequence[int], seconds: float | Sequence[float]) -> Rows:
    found = np.zeros(len(reported), dtype=ROW)
    found["reported"] = reported
    found["longest"] = np.where(found["reported"] > 0, seconds, 0.0)
    return found


def test_the_worked_example() -> None:
    assert complete_or_given_up(rows([4, 3, 4, 3, 3, 3, 3, 3], 8.0), WORLD) == 4


@pytest.mark.parametrize(
    ("seconds", "behind"),
    [(0.1, GIVE_UP_STEPS), (0.4, GIVE_UP_STEPS), (2.0, 15), (7.0, 5), (60.0, GIVE_UP_FEW)],
)
def test_it_is_so_far_behind_while_an_agent_is_gone(seconds: float, behind: int) -> None:
    for count in (behind, behind + 1, behind + 30):
        due = complete_or_given_up(rows([3] * count, seconds), WORLD)
        assert due == max(0, count - behind)


def test_what_nobody_reported_takes_no_time_and_goes_with_the_steps_around_it() -> None:
    reported = [3, 0, 0, 3, 3, 3, 3]
    assert complete_or_given_up(rows(reported, 6.0), WORLD) == 0
    assert complete_or_given_up(rows([*reported, 3], 6.0), WORLD) == 1
    assert complete_or_given_up(rows([*reported, 3, 3], 6.0), WORLD) == 4


def test_nothing_is_due_of_nothing() -> None:
    assert complete_or_given_up(rows([], []), WORLD) == 0
    assert complete_or_given_up(rows([0, 0], 0.0), WORLD) == 0


batches = st.lists(
    st.tuples(st.integers(0, 90), st.integers(0, WORLD - 1), st.floats(0.0, 40.0)), max_size=80
)


@given(batches, st.integers(0, 20))
def test_none_is_given_up_earlier_than_is_said_before_its_rows_are_entered(
    sent: list[tuple[int, int, float]], awaited: int
) -> None:
    """Of rows that come one in each batch, to steps of which some were reported before."""
    unique = {(step, rank): seconds for step, rank, seconds in sent}
    parts = [(step + awaited, rank, seconds) for (step, rank), seconds in unique.items()]
    table = np.concatenate(
        [step_rows([], []), *(step_rows([step], [rank], each) for step, rank, each in parts)]
    )
    origin = np.arange(len(parts))
    host = Fresh(table, np.zeros_like(origin), origin, np.zeros_like(origin))
    held = rows([0] * 91, 0.0)
    held[:3] = rows([3, 3, 4], 5.0)
    said = newest_given_up(host, held, (0, len(parts)), awaited)
    for number in range(len(parts) + 1):
        known = complete_or_given_up(held, 1 << 20)  # none is complete
        assert awaited + known - 1 <= said[number]
        if number < len(parts):
            step, _, seconds = parts[number]
            row = held[step - awaited : step - awaited + 1]
            row["reported"] += 1
            row["longest"] = np.maximum(row["longest"], seconds)


def test_three_of_the_longest_flushes_are_waited_for() -> None:
    assert GIVE_UP_SECONDS == 30.0
