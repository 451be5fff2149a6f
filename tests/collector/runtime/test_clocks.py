"""A wall clock that is set in the middle of a run: no hour is charged that never passed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.checkpoints_in_flight import CheckpointsInFlight
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import CheckpointEvent, Kind
from stepwatch.signals.wire import Segment
from tests.collector.made import (
    EPOCH,
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)

HOUR = 3600.0
STARVED = {(rank, "data"): 0.4 for rank in range(4)}


def starved_run(
    store: Store, set_in_segment: int, shift_s: float, *, loses_answer: bool = False
) -> tuple[Incident, float]:
    """A data stall from step 60 to 100 on one machine whose clock is set; times as set at last.

    If it `loses_answer`, the evaluation after that is stored, and its commit fails all the same.
    """
    clock = HandClock(0.0)
    service = Service(store, clock)
    calm = [
        segment(
            first,
            {
                Kind.STEP: step_rows(range(first, first + 5), range(4)),
                Kind.RANK_STATE: state_rows(range(4), 4, (first + 5) * 0.2, first + 4),
            },
        )
        for first in range(100, 200, 5)
    ]
    for number, item in enumerate([*run_segments(100, excess=STARVED, slow_from=60), *calm]):
        if number == set_in_segment:
            clock.wall += shift_s
        wall = round((clock.wall - clock.monotonic) * NANOSECONDS)
        service.receive(body([item._replace(clock=ClockPair(0, wall))]))
        clock.advance(1.0)
        with pytest.MonkeyPatch.context() as patch:
            if loses_answer and number == set_in_segment:
                patch.setattr(store, "save_evaluation", without_answer(store.save_evaluation))
            service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None and service.evaluation_failures == int(loses_answer)
    (incident,) = job_state[1].incidents.values()
    return incident, clock.wall - clock.monotonic


def without_answer(save: Callable[..., None]) -> Callable[..., None]:
    """Return `save` as it is if its commit succeeds and the answer is lost."""

    def save_and_fail(*words: object) -> None:
        save(*words)
        raise sa.exc.OperationalError("commit", None, Exception("connection lost"))

    return save_and_fail


@pytest.mark.parametrize("shift_s", [HOUR, -HOUR])
@pytest.mark.parametrize("set_in_segment", [8, 16])
def test_an_hour_that_never_passed_is_not_charged(
    store: Store, set_in_segment: int, shift_s: float
) -> None:
    incident, zero = starved_run(store, set_in_segment, shift_s)
    assert incident.state == "resolved" and incident.resolved_at == pytest.approx(zero + 35, abs=2)
    assert incident.detected_after_seconds < 10
    assert incident.device_seconds_lost == pytest.approx(21.3, abs=5)


def test_a_lost_answer_shifts_an_incident_once(store: Store) -> None:
    """The clock is set in the evaluation that opens the incident."""
    incident, _ = starved_run(store, 13, -HOUR, loses_answer=True)
    assert incident.device_seconds_lost == pytest.approx(21.3, abs=5)


def goodput_of(store: Store, set_in_segment: int, shift_s: float) -> tuple[float, float]:
    """Good and total device-seconds of a healthy run of 40 s on a machine whose clock is set."""
    clock = HandClock(0.0)
    service = Service(store, clock)
    for number, item in enumerate(run_segments(200)):
        if number == set_in_segment:
            clock.wall += shift_s
        wall = round((clock.wall - clock.monotonic) * NANOSECONDS)
        service.receive(body([item._replace(clock=ClockPair(0, wall))]))
        clock.advance(1.0)
        service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    last = job_state[1].slices["goodput"].line.last
    assert last is not None
    return last.cumulative_good, last.cumulative_total


@pytest.mark.parametrize("shift_s", [0.0, HOUR, -HOUR])
@pytest.mark.parametrize("set_in_segment", [1, 20])
def test_goodput_is_that_of_the_time_that_passed(
    store: Store, set_in_segment: int, shift_s: float
) -> None:
    good, total = goodput_of(store, set_in_segment, shift_s)
    assert total == pytest.approx(4 * 40.0)
    assert good == pytest.approx(total, rel=1e-3)


def test_the_newest_steps_say_what_time_it_is() -> None:
    attempt = Attempt(0)
    reported = {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)}
    for number in range(20):
        reported[Kind.STEP] = step_rows([number], range(2), 1.0)
        offset = EPOCH - (HOUR if number >= 10 else 0)
        shifted: Segment = segment(number, reported)
        shifted = shifted._replace(clock=ClockPair(0, round(offset) * NANOSECONDS))
        attempt.apply(shifted, Received(0.0, 0.0))
    assert attempt.steps.newest_s == EPOCH - HOUR + 20


def test_a_save_after_a_clock_was_set_back_ends_when_it_says() -> None:
    saves = CheckpointsInFlight()
    for step, wall in ((10, EPOCH + HOUR), (20, EPOCH)):
        for rank in (0, 1):
            rows = checkpoint_rows(CheckpointEvent.BEGIN, [rank], step)
            rows["time_ns"] = (step + rank) * NANOSECONDS
            saves.add(rows, 2, round(wall) * NANOSECONDS)
    assert saves.ended_s == EPOCH + 21
