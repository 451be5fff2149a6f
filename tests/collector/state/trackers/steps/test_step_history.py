"""Window and step_history: every (rank, step) once, whatever order it comes in; gaps stay gaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import MAX_CELLS, StepRing
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.steps.step_history import MAX_STEPS, StepHistory
from stepwatch.signals.records import Kind
from tests.collector.made import EPOCH, segment, state_rows, step_rows

STAGE = np.zeros(4, dtype=np.int16)
OFFSET = EPOCH * 10**9


@settings(max_examples=60)
@given(
    cells=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=1, max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=5),
)
def test_each_cell_counts_once(cells: list[tuple[int, int]], cuts: list[int]) -> None:
    ring, step_history = StepRing(4), StepHistory()
    edges = sorted({0, *(min(cut, len(cells)) for cut in cuts), len(cells)})
    for first, last in itertools.pairwise(edges):
        rows = np.concatenate([step_rows([step], [rank]) for step, rank in cells[first:last]])
        step_history.add(ring.add(step_history.make_room(rows)), OFFSET)
    expected = set(cells)
    counts = dict(
        zip(step_history.steps.tolist(), step_history.rows["reported"].tolist(), strict=True)
    )
    assert counts == {
        step: sum((step, rank) in expected for rank in range(4))
        for step in range(min(s for s, _ in cells), max(s for s, _ in cells) + 1)
    }
    window = ring.window(512, STAGE)
    finite = ~np.isnan(window.planes["duration"])
    reported_cells = {
        (int(window.steps[i]), int(rank)) for i, rank in zip(*np.nonzero(finite), strict=True)
    }
    assert reported_cells == expected


def test_a_rank_that_is_late_by_more_than_the_window_counts_once() -> None:
    ring, step_history = StepRing(2), StepHistory()
    ahead = ring.depth * 3
    for rows in (step_rows(range(ahead), [0]), step_rows(range(50), [1]), step_rows([3], [1])):
        step_history.add(ring.add(step_history.make_room(rows)), OFFSET)
    assert step_history.rows["reported"].tolist() == [2] * 50 + [1] * (ahead - 50)
    assert step_history.complete_until(2) == 49
    window = ring.window(100, STAGE[:2])
    assert np.isnan(window.planes["duration"][:, 1]).all(), "its old steps are not among the new"


def test_a_gap_is_no_progress() -> None:
    step_history = StepHistory()
    for steps in (range(5), range(7, 9)):
        step_history.add(step_history.make_room(step_rows(steps, range(4))), OFFSET)
    assert step_history.complete_until(4) == 4
    step_history.add(step_history.make_room(step_rows([5, 6], range(3))), OFFSET)
    assert step_history.complete_until(4) == 4
    step_history.add(step_history.make_room(step_rows([5, 6], [3])), OFFSET)
    assert step_history.complete_until(4) == 8


def test_steps_before_the_first_known_one_find_room() -> None:
    step_history = StepHistory()
    step_history.add(step_history.make_room(step_rows(range(1000, 1010), [0])), OFFSET)
    step_history.add(step_history.make_room(step_rows(range(995, 1000), [0])), OFFSET)
    assert (step_history.first, len(step_history)) == (995, 15)
    assert step_history.rows["reported"].tolist() == [1] * 15
    assert len(step_history.make_room(step_rows([1000 + MAX_STEPS], [0]))) == 0
    assert len(step_history) == 15


def test_a_world_that_grows_forgets_nothing() -> None:
    attempt = Attempt(0)

    def hear(number: int, world: int, steps: range) -> None:
        tables = {
            Kind.RANK_STATE: state_rows(range(world), world, 1.0),
            Kind.STEP: step_rows(steps, range(world)),
        }
        attempt.apply(segment(number, tables), Received(0.0, 0.0))

    hear(1, 2, range(10))
    hear(2, 4, range(5, 15))
    assert attempt.steps.history.rows["reported"].tolist() == [2] * 5 + [4] * 10
    assert attempt.window(100).steps.tolist() == list(range(15))
    assert attempt.steps.rank_seconds["duration"][0] == pytest.approx(15 * 0.2)
    hear(3, 3, range(15, 16))
    assert attempt.world == 4, "a rank that knows of fewer does not shrink the job"


def test_a_ring_grown_to_another_depth_keeps_the_newest() -> None:
    small, world = StepRing(2), MAX_CELLS // 64
    small.add(step_rows(range(200), range(2)))
    large = small.grown(world)
    assert large.depth == 64
    window = large.window(512, np.zeros(world, dtype=np.int16))
    assert window.steps.tolist() == list(range(200 - 64, 200))
    assert not np.isnan(window.planes["forward"][:, :2]).any()
    assert len(large.add(step_rows([199], [0]))) == 0, "and knows what it has seen"


def test_loss_is_what_a_rank_knew() -> None:
    step_history = StepHistory()
    rows = step_rows(range(3), range(2))
    rows["loss"][rows["rank"] == 1] = np.nan
    rows["loss"][rows["step"] == 2] = np.nan
    step_history.add(step_history.make_room(rows), OFFSET)
    assert step_history.rows["loss"][0] == 5.0
    assert np.isnan(step_history.rows["loss"][2])


def test_baseline_is_unknown_before_there_are_steps() -> None:
    step_history = StepHistory()
    step_history.add(step_history.make_room(step_rows(range(7), [0])), OFFSET)
    assert np.isnan(step_history.baseline())
    step_history.add(step_history.make_room(step_rows([7], [0])), OFFSET)
    assert step_history.baseline() == pytest.approx(0.2)
    step_history.add(step_history.make_room(step_rows(range(8, 23), [0])), OFFSET)
    late_rows = step_rows(range(23, 80), [0], excess={(0, "forward"): 5.0})
    step_history.add(step_history.make_room(late_rows), OFFSET)
    assert step_history.baseline() == pytest.approx(0.2), (
        "a run that slows down late keeps its baseline"
    )


def test_the_loss_of_a_step_is_the_mean_over_ranks_that_recorded_one() -> None:
    step_history = StepHistory()
    for rank, loss in enumerate([2.0, np.nan, 5.0, np.inf]):
        rows = step_rows([0, 1], [rank])
        rows["loss"] = [loss, np.nan]
        step_history.add(step_history.make_room(rows), OFFSET)
    assert step_history.rows["loss"][0] == 3.5
    assert np.isnan(step_history.rows["loss"][1])


@pytest.mark.parametrize("last", [9, 4000])
def test_steps_between_those_that_come_stay_as_they_are(last: int) -> None:
    """Neighbours are taken with what lies between them, steps far apart without."""
    together, apart = StepHistory(), StepHistory()
    rows = np.concatenate([step_rows([7, 8, last], [0]), step_rows([7, last, 7], [1])])
    rows["loss"][1] = np.nan
    for history, parts in ((together, [rows[:3], rows[3:]]), (apart, np.split(rows, len(rows)))):
        history.make_room(rows)
        for part in parts:
            history.add(part, 5)
    assert together.rows.tobytes() == apart.rows.tobytes()
    assert together.rows["reported"][[0, 1, last - 7]].tolist() == [3, 1, 2]
    assert int(together.rows["reported"].sum()) == 6


@pytest.mark.parametrize("nanoseconds", range(0, 4000, 311))
def test_the_time_between_steps_is_exact_to_the_nanosecond(nanoseconds: int) -> None:
    """As floats, moments are rounded to 2.4e-7 s: 1.5e-5 device-seconds of 64 ranks."""
    began, length = OFFSET + 7, 1_000_000_000 + nanoseconds
    step_history = StepHistory()
    rows = step_rows([0, 1], [0])
    rows["time_ns"] = [length, 2 * length]
    step_history.add(step_history.make_room(rows), began)
    allocated = step_history.facts(64, began, None).allocated
    assert np.rint(allocated * 1e9).astype(int).tolist() == [length, length]
