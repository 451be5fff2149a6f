"""Ranks' self time over a whole attempt: the largest of each span, however steps come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwatch.collector.state.evidence.step_window import StepRing
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.trackers.steps import rank_history
from stepwatch.collector.state.trackers.steps.rank_history import RankHistory, SettledRanks
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind
from tests.collector.made import step_rows

WORLD, MOST = 3, 8


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_history, "MOST_SPANS", MOST)
    monkeypatch.setattr(rank_history, "_CELLS_AT_ONCE", 2 * WORLD)


def settle(
    history: RankHistory, steps: list[int], world: int = WORLD, clock: StepClock = HOST
) -> None:
    """Settle steps in which each rank works for its number and the step's, in milliseconds."""
    ring = StepRing(world)
    rows = step_rows(steps, range(world), 0.2)
    rows["forward_ns"] = (rows["step"] + rows["rank"].astype(np.int64)) * NANOSECONDS // 1000
    for name in ("data", "backward", "optimizer", "other"):
        rows[f"{name}_ns"] = 0
    ring.add(rows)
    numbers = np.array(steps)
    nothing = Fresh.nothing(Kind.STEP)
    history.settle(SettledRanks(clock, numbers, numbers * 1.0, ring, ring, nothing), world)


def spans(history: RankHistory) -> list[tuple[int, float]]:
    """The first step and the greatest second of rank 0 in each known span."""
    first = history.first >> history.shift
    return [
        ((first + place) << history.shift, round(float(history.seconds[place, 0]), 3))
        for place in range(history.used)
        if not np.isnan(history.seconds[place, 0])
    ]


@pytest.mark.usefixtures("narrow")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=60),
    st.integers(0, 1000),
    st.sets(st.integers(0, 60)),
)
def test_spans_hold_the_largest_value_however_steps_come(
    gaps: list[int], first: int, cuts: set[int]
) -> None:
    steps = [int(step) for step in first + np.cumsum(gaps)]
    at_once, in_parts = RankHistory(), RankHistory()
    settle(at_once, steps)
    part: list[int] = []
    for index, step in enumerate(steps):
        part.append(step)
        if index in cuts or index == len(steps) - 1:
            settle(in_parts, part)
            part = []
    width = 1 << at_once.shift
    greatest = {step // width * width: step / 1000 for step in steps}
    assert spans(at_once) == spans(in_parts) == sorted(greatest.items())
    assert at_once.used <= MOST
    np.testing.assert_array_equal(at_once.seconds, in_parts.seconds)
    np.testing.assert_array_equal(at_once.ends_s, in_parts.ends_s)


@pytest.mark.usefixtures("narrow")
def test_pairs_of_spans_begin_at_multiples_of_their_length() -> None:
    history = RankHistory()
    settle(history, [*range(3, 12)])
    assert (history.shift, history.first) == (1, 2)
    assert spans(history) == [(2, 0.003), (4, 0.005), (6, 0.007), (8, 0.009), (10, 0.011)]


def test_more_ranks_keep_what_is_known_and_another_clock_begins_anew() -> None:
    history = RankHistory()
    settle(history, [0, 1, 2], world=2)
    settle(history, [3, 4], world=4)
    assert history.seconds.shape[1] == 4 and spans(history)[0] == (0, 0.0)
    assert np.isnan(history.seconds[:3, 3]).all() and not np.isnan(history.seconds[3, 3])
    settle(history, [5, 6], world=4, clock=DEVICE)
    assert spans(history) == [(5, 0.005), (6, 0.006)]


def test_steps_that_are_numbered_anew_begin_anew() -> None:
    history = RankHistory()
    settle(history, [100, 101])
    settle(history, [7, 8])
    assert spans(history) == [(7, 0.007), (8, 0.008)]
