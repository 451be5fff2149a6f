"""The devices' clock is used where every rank has it; else the host's, for all, and why."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import DEVICE_COLUMNS, IDLE
from stepwatch.collector.state.step_clock import ARRIVING_STEPS, rank_seconds_on, step_timing
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.steps.settled_steps import LATE_SECONDS
from stepwatch.signals.records import DeviceFlag, Kind, LifecycleEvent
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    device_step_rows,
    host_ahead_rows,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
    timing_rows,
)

WORLD = 4
RANKS = range(WORLD)


def run(*tables: dict[Kind, Rows], world: int = WORLD) -> Attempt:
    """An attempt that was sent these tables, one segment each."""
    attempt = Attempt(0)
    start = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(world), world)}
    for sequence, rows in enumerate((start, *tables)):
        attempt.apply(segment(sequence + 1, rows), Received(0.0, float(sequence)))
    return attempt


def test_every_rank_timed_on_its_device() -> None:
    attempt = run(
        {Kind.LIFECYCLE: timing_rows(RANKS), Kind.STEP: host_ahead_rows(range(20), RANKS)},
        {Kind.DEVICE_STEP: device_step_rows(range(20), RANKS, idle={(1, "forward"): 0.01})},
    )
    window = attempt.window(16)
    assert (window.clock, step_timing(attempt).reason) == ("device", "")
    assert window.steps.tolist() == list(range(4, 20))
    np.testing.assert_allclose(window.planes["forward"], 0.05, rtol=1e-6)
    np.testing.assert_allclose(window.planes["forward_idle"][:, 1], 0.01, rtol=1e-6)
    np.testing.assert_allclose(window.planes["host_lead"], 0.03, rtol=1e-6)
    assert (window.planes["tokens"] == 100).all(), "what a rank recorded stays"


def test_the_hosts_clock_where_no_device_times() -> None:
    attempt = run({Kind.STEP: step_rows(range(20), RANKS)})
    window = attempt.window(16)
    assert (window.clock, step_timing(attempt).reason) == ("host", "")
    for name in (*IDLE, "host_lead", "clock_error"):
        assert np.isnan(window.planes[name]).all(), name
    part_window = window.select(np.arange(3))
    assert {plane.shape for plane in part_window.planes.values()} == {(3, WORLD)}
    assert set(DEVICE_COLUMNS) <= set(part_window.planes)


def test_one_rank_without_a_device_puts_all_on_the_host() -> None:
    attempt = run(
        {
            Kind.LIFECYCLE: np.concatenate(
                [timing_rows(range(3)), timing_rows([3], b"no timing events")]
            ),
            Kind.STEP: step_rows(range(20), RANKS),
            Kind.DEVICE_STEP: device_step_rows(range(20), range(3)),
        }
    )
    assert step_timing(attempt) == ("host", "rank 3: no timing events")
    assert attempt.window(16).clock == "host"


def test_a_rank_that_sends_no_device_rows_and_no_reason() -> None:
    attempt = run(
        {
            Kind.STEP: step_rows(range(20), RANKS),
            Kind.DEVICE_STEP: device_step_rows(range(20), [0, 1, 3]),
        }
    )
    assert step_timing(attempt) == ("host", "rank 2: not timed on the device")


def test_rows_that_are_late_are_no_reason_and_their_steps_are_not_complete() -> None:
    attempt = run(
        {Kind.STEP: step_rows(range(40), RANKS)},
        {Kind.DEVICE_STEP: device_step_rows(range(30), RANKS)},
        {Kind.DEVICE_STEP: device_step_rows([30, 31], [0])},
    )
    window = attempt.window(16)
    assert (window.clock, int(window.steps[-1])) == ("device", 31)
    finite = ~np.isnan(window.planes["duration"])
    assert finite[-3:].sum(axis=1).tolist() == [4, 1, 1]


def test_rows_of_one_rank_that_stop_put_all_on_the_host() -> None:
    def attempt_after(more: int) -> Attempt:
        return run(
            {Kind.STEP: step_rows(range(100), RANKS)},
            {Kind.DEVICE_STEP: device_step_rows(range(60), RANKS)},
            {Kind.DEVICE_STEP: device_step_rows(range(60, 60 + more), [0, 1, 3])},
        )

    assert attempt_after(ARRIVING_STEPS).window(64).clock == "device", "they may be on their way"
    assert attempt_after(40).window(64).clock == "host"


@pytest.mark.parametrize(
    ("seconds", "passed", "clock"),
    [(0.1, 60.0, "device"), (2.0, 60.0, "host"), (2.0, 1.0, "device")],
)
def test_rows_of_all_ranks_that_stop_while_steps_go_on(
    seconds: float, passed: float, clock: str
) -> None:
    """Steps of 0.1 s: 4 s behind; of 2 s: far behind, and no row came in the `passed` seconds."""
    assert 40 * 0.1 < LATE_SECONDS < 40 * 2.0
    attempt = run(
        {Kind.STEP: step_rows(range(100), RANKS, seconds)},
        {Kind.DEVICE_STEP: device_step_rows(range(60), RANKS, seconds)},
    )
    states = {Kind.RANK_STATE: state_rows(RANKS, WORLD, 200.0)}
    attempt.apply(segment(9, states), Received(0.0, 2.0 + passed))
    assert attempt.window(64).clock == clock


def test_steps_that_are_timed_in_part_are_not_compared() -> None:
    rows = device_step_rows(range(20), RANKS)
    rows["flags"][rows["step"] >= 2] = DeviceFlag.INCOMPLETE
    attempt = run({Kind.STEP: step_rows(range(20), RANKS)}, {Kind.DEVICE_STEP: rows})
    assert step_timing(attempt) == ("host", "steps are timed in part only")
    more = run({Kind.STEP: step_rows(range(20), RANKS), Kind.DEVICE_STEP: rows[rows["rank"] < 3]})
    rows["flags"] = DeviceFlag.INCOMPLETE
    nothing = run({Kind.STEP: step_rows(range(20), RANKS), Kind.DEVICE_STEP: rows})
    assert step_timing(nothing) == ("host", "steps are timed in part only")
    assert step_timing(more) == ("host", "rank 3: steps are timed in part only")


def test_where_every_fourth_step_is_timed_whole_the_window_holds_these() -> None:
    """In the others the wait of some collectives counts to a phase."""
    rows = device_step_rows(range(96), RANKS)
    part = rows["step"] % 4 > 0
    rows["flags"][part] = DeviceFlag.INCOMPLETE
    rows["backward_seconds"][part] += rows["collective_seconds"][part]
    rows["collective_seconds"][part] = 0.0
    start = {Kind.LIFECYCLE: timing_rows(RANKS), Kind.STEP: host_ahead_rows(range(96), RANKS)}
    attempt = run(start, {Kind.DEVICE_STEP: rows})
    window = attempt.window(16)
    assert window.clock == "device"
    assert window.steps.tolist() == list(range(32, 96, 4))
    np.testing.assert_allclose(window.planes["backward"], 0.08, rtol=1e-6)
    np.testing.assert_allclose(window.planes["collective"], 0.04, rtol=1e-5)
    lengths = attempt.tracker(DeviceSteps).lengths.seconds(np.arange(96), WORLD)
    np.testing.assert_allclose(lengths, 0.2, rtol=1e-6)
    assert attempt.totals.steps_on == {"device": 96, "host": 0}
    shares = rank_seconds_on(attempt, "device")
    np.testing.assert_allclose(shares["backward"] / shares["duration"], 0.4, rtol=1e-6)


def test_a_few_untimed_steps_are_nearly_all() -> None:
    timed = [step for step in range(64) if step % 16]
    attempt = run(
        {Kind.STEP: step_rows(range(64), RANKS)},
        {Kind.DEVICE_STEP: device_step_rows(timed, RANKS)},
    )
    window = attempt.window(64)
    assert window.clock == "device"
    assert np.isnan(window.planes["duration"][::16]).all()


def test_a_device_that_is_lost_and_times_again() -> None:
    rows = {Kind.STEP: step_rows(range(20), RANKS)}
    device = {Kind.DEVICE_STEP: device_step_rows(range(20), RANKS)}
    lost = {Kind.LIFECYCLE: timing_rows([1], b"device lost", time_s=3.0)}
    restored = {Kind.LIFECYCLE: timing_rows([1], time_s=4.0)}
    assert step_timing(run(rows, device, lost)) == ("host", "rank 1: device lost")
    assert step_timing(run(rows, device, lost, restored)).clock == "device"
    assert step_timing(run(rows, device, restored, lost)).clock == "device", (
        "the later event counts"
    )


def test_a_rank_that_reports_no_step_does_not_count() -> None:
    attempt = run(
        {
            Kind.STEP: step_rows(range(20), range(3)),
            Kind.DEVICE_STEP: device_step_rows(range(20), range(3)),
        }
    )
    assert attempt.window(16).clock == "device"


def test_more_ranks_keep_what_is_known() -> None:
    attempt = run(
        {
            Kind.STEP: step_rows(range(20), range(2)),
            Kind.DEVICE_STEP: device_step_rows(range(20), range(2)),
        },
        {Kind.RANK_STATE: state_rows(RANKS, WORLD, 4.0)},
        world=2,
    )
    window = attempt.window(16)
    assert window.clock == "device"
    np.testing.assert_allclose(window.planes["backward"][:, :2], 0.08, rtol=1e-6)
    assert np.isnan(window.planes["backward"][:, 2:]).all()
