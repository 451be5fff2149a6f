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
from stepwatch.collector.state.trackers.steps.step_history import no_rows
from stepwatch.signals.wire import Rows
from tests.collector.made import step_rows

WORLD = 4


def rows(reported: Sequence[int], seconds: float) -> Rows:
    """Steps of so many seconds, each received as it ends; nobody has the last of those with 0."""
    table = no_rows(len(reported))
    table["reported"] = reported
    ends = (1.0 + np.arange(len(reported))) * seconds
    table["received_s"] = np.where(table["reported"] > 0, ends, np.inf)
    return table


def due(reported: Sequence[int], seconds: float) -> int:
    """How many need no longer wait when the last of them was received."""
    return complete_or_given_up(rows(reported, seconds), WORLD, len(reported) * seconds)


def test_the_worked_example() -> None:
    assert due([4, 3, 4, 3, 3, 3, 3, 3], 20.0) == 4


@pytest.mark.parametrize(
    ("seconds", "behind"),
    [(0.1, GIVE_UP_STEPS), (0.4, GIVE_UP_STEPS), (2.0, 30), (7.0, 9), (60.0, GIVE_UP_FEW)],
)
def test_it_is_so_far_behind_while_an_agent_is_gone(seconds: float, behind: int) -> None:
    for count in (behind, behind + 1, behind + 30):
        assert due([3] * count, seconds) == max(0, count - behind)


def test_what_nobody_reported_goes_with_the_steps_around_it() -> None:
    assert due([3, 0, 0, 3, 3, 3, 3], 9.0) == 0
    assert due([3, 0, 0, 3, 3, 3, 3, 3], 9.0) == 1
    assert due([3, 0, 0, 3, 3, 3, 3, 3, 3, 3], 9.0) == 1
    assert due([3, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3], 9.0) == 4


def test_nothing_is_due_of_nothing() -> None:
    assert due([], 1.0) == 0
    assert due([0, 0], 1.0) == 0


def test_what_an_agent_kept_is_awaited_from_when_it_came() -> None:
    """All agents were cut off for minutes: what the first of them kept came at once."""
    table = rows([3] * 40, 10.0)
    table["received_s"] = 1_000.0
    assert complete_or_given_up(table, WORLD, 1_000.0 + GIVE_UP_SECONDS - 1.0) == 0
    assert complete_or_given_up(table, WORLD, 1_000.0 + GIVE_UP_SECONDS) == 40 - GIVE_UP_FEW


sent = st.lists(
    st.tuples(st.integers(0, 90), st.integers(0, WORLD - 1), st.floats(-90.0, 90.0)), max_size=80
)


@given(sent, st.integers(0, 20))
def test_none_is_given_up_earlier_than_is_said_before_its_rows_are_entered(
    sent: list[tuple[int, int, float]], awaited: int
) -> None:
    """Of rows that come one in each batch, so many seconds later or, as clocks are set, earlier, to
    steps of which some were reported before."""
    unique = {(step, rank): moved for step, rank, moved in sent}
    parts = [(step + awaited, rank) for step, rank in unique]
    received = 100.0 + np.cumsum([0.0, *unique.values()])[1:]
    table = np.concatenate(
        [step_rows([], []), *(step_rows([step], [rank]) for step, rank in parts)]
    )
    origin, step_table, now = np.arange(len(parts)), no_rows(91), 100.0
    zeros = np.zeros_like(origin)
    host = Fresh(table, zeros, origin, zeros, received)
    step_table[:3] = rows([3, 3, 4], 30.0)
    given_up = newest_given_up(host, step_table, (0, len(parts)), awaited, now)
    for number in range(len(parts) + 1):
        complete = complete_or_given_up(step_table, 1 << 20, now)  # none is complete
        assert awaited + complete - 1 <= given_up[number]
        if number < len(parts):
            row = step_table[parts[number][0] - awaited :][:1]
            row["reported"] += 1
            row["received_s"] = np.minimum(row["received_s"], received[number])
            now = max(now, float(received[number]))


def test_six_of_the_longest_flushes_are_waited_for() -> None:
    assert GIVE_UP_SECONDS == 60.0
