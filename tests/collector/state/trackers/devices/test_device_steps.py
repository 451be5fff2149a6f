"""DEVICE_STEP rows: late, twice, out of order, impossible; each (rank, step) counts once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import RingPlanes
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.devices.device_steps import STEPS_AHEAD, DeviceSteps
from stepwatch.signals.records import DeviceFlag, Kind
from stepwatch.signals.wire import Rows
from tests.collector.made import device_step_rows, random_rows, segment, state_rows, step_rows

NOW = Received(0.0, 0.0)
STEPS = np.arange(40)


def attempt_of(world: int = 2, steps: int = 40) -> Attempt:
    """An attempt whose hosts reported their steps."""
    attempt = Attempt(0)
    tables = {
        Kind.RANK_STATE: state_rows(range(world), world, 1.0),
        Kind.STEP: step_rows(range(steps), range(world)),
    }
    attempt.apply(segment(1, tables), NOW)
    return attempt


def send(attempt: Attempt, rows: Rows) -> DeviceSteps:
    """Apply DEVICE_STEP rows; returns the tracker."""
    attempt.apply(segment(2, {Kind.DEVICE_STEP: rows}), NOW)
    return attempt.tracker(DeviceSteps)


@settings(max_examples=40)
@given(
    cells=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 1)), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_each_cell_counts_once(cells: list[tuple[int, int]], cuts: list[int]) -> None:
    attempt = attempt_of()
    edges = sorted({0, *(min(cut, len(cells)) for cut in cuts), len(cells)})
    for first, last in itertools.pairwise(edges):
        send(attempt, np.concatenate([device_step_rows([s], [r]) for s, r in cells[first:last]]))
    device_steps = attempt.tracker(DeviceSteps)
    known_mask = device_steps.ring.holds(STEPS)
    assert set(zip(*(indices.tolist() for indices in np.nonzero(known_mask)), strict=True)) == set(
        cells
    )
    expected = [0.2 * len({s for s, r in cells if r == rank}) for rank in range(2)]
    assert device_steps.rank_seconds["duration"].tolist() == pytest.approx(expected)
    whole_steps = [step for step in range(40) if {(step, 0), (step, 1)} <= set(cells)]
    assert np.flatnonzero(~np.isnan(device_steps.lengths.seconds(STEPS, 2))).tolist() == whole_steps


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rank", 2),
        ("rank", -1),
        ("duration_seconds", np.nan),
        ("duration_seconds", -1.0),
        ("duration_seconds", np.inf),
        ("forward_seconds", -0.1),
        ("forward_idle_seconds", np.inf),
        ("host_lead_seconds", 1e30),
        ("step", 40 + STEPS_AHEAD),
        ("time_ns", 2**64 - 1),
    ],
)
def test_what_no_device_can_have_made_is_refused(field: str, value: float) -> None:
    attempt, rows = attempt_of(), device_step_rows([5], [0])
    rows[field] = value
    device_steps = send(attempt, rows)
    assert attempt.refused_records == 1
    assert (device_steps.ring.newest, device_steps.cells) == (-1, 0)


@pytest.mark.parametrize(
    ("field", "value"), [("backward_seconds", np.nan), ("flags", DeviceFlag.INCOMPLETE)]
)
def test_of_a_step_that_was_not_timed_whole_the_length_stays(field: str, value: float) -> None:
    attempt, rows = attempt_of(), device_step_rows([5, 6], [0])
    rows[field][0] = value
    device_steps = send(attempt, rows)
    assert attempt.refused_records == 0
    steps = np.array([5, 6])
    names = ("duration", "forward", "other_idle")
    planes = RingPlanes(
        device_steps.ring.cells_of(steps, device_steps.ring.holds(steps), names),
        2,
        device_steps.ring.world,
    )
    assert planes["duration"][:, 0].tolist() == pytest.approx([0.2, 0.2])
    for name in ("forward", "other_idle"):
        assert np.isnan(planes[name][:, 0]).tolist() == [True, False]
    assert device_steps.rank_seconds["duration"].tolist() == pytest.approx([0.2, 0.0])
    assert device_steps.lengths.seconds(steps, 1).tolist() == pytest.approx([0.2, 0.2])


def test_an_unknown_idle_stays_unknown() -> None:
    attempt, rows = attempt_of(), device_step_rows(range(40), range(2))
    rows["forward_idle_seconds"] = np.nan
    device_steps = send(attempt, rows)
    assert np.isnan(attempt.window(8).planes["forward_idle"]).all()
    assert device_steps.rank_seconds["forward_idle"].tolist() == [0.0, 0.0]


def test_the_first_steps_are_the_baseline_on_the_devices_clock() -> None:
    attempt = attempt_of()
    rows = device_step_rows(range(40), range(2), excess={(1, "forward"): 0.1})
    device_steps = send(attempt, rows)
    assert device_steps.baseline.work["forward"].tolist() == pytest.approx([0.05, 0.15])
    assert device_steps.early_baseline.seconds(2)["forward"].tolist() == pytest.approx([0.1] * 20)


def test_a_released_attempt_keeps_the_lengths_alone() -> None:
    attempt = attempt_of()
    send(attempt, device_step_rows(range(30), range(2)))
    assert attempt.tracker(DeviceSteps).cells > 0
    attempt.release()
    device_steps = send(attempt, device_step_rows(range(30, 40), range(2)))
    assert (device_steps.cells, attempt.refused_records) == (0, 20)
    np.testing.assert_allclose(device_steps.lengths.seconds(np.arange(30), 2), 0.2, rtol=1e-6)


def test_an_earlier_first_step_moves_no_length() -> None:
    attempt = Attempt(0)
    states = {Kind.RANK_STATE: state_rows(range(1), 1, 1.0)}
    late_tables = {**states, Kind.STEP: step_rows(range(10, 20), [0])}
    attempt.apply(segment(1, late_tables), NOW)
    device_steps = send(attempt, device_step_rows(range(10, 20), [0], seconds=0.3))
    attempt.apply(segment(3, {Kind.STEP: step_rows(range(10), [0])}), NOW)
    send(attempt, device_step_rows(range(5), [0], seconds=0.1))
    expected = [0.1] * 5 + [np.nan] * 5 + [0.3] * 10
    np.testing.assert_allclose(device_steps.lengths.seconds(np.arange(20), 1), expected, rtol=1e-6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_random_rows_break_nothing(seed: int) -> None:
    attempt = attempt_of()
    device_steps = send(attempt, random_rows(Kind.DEVICE_STEP, 200, np.random.default_rng(seed)))
    assert device_steps.ring.newest < 40 + STEPS_AHEAD
    assert len(attempt.window(8).steps) == 8
