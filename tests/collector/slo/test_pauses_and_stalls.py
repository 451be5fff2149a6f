"""Evaluations and saves are not bad steps, a stall burns, and a short run says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.openslo import default_slos
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.registry import AttemptSteps, discover
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.slo.waste import CAUSES, MICROSECONDS, Spent, partition
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, LifecycleEvent, Phase, ProcessState
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)


def paused_steps(name: str, seconds: float, rank_seconds: float) -> tuple[Any, Any]:
    """Ten steps of 0.2 s on 4 ranks; in step 5 rank 0 pauses and the others wait for it."""
    rows = step_rows(range(10), range(4))
    paused_rows = rows["step"] == 5
    first = paused_rows & (rows["rank"] == 0)
    rows[f"{name}_ns"][first] = round(rank_seconds * NANOSECONDS)
    for column in ("duration_ns", "time_ns"):
        rows[column][paused_rows] += round(seconds * NANOSECONDS)
    rows["collective_ns"][paused_rows & ~first] += round(seconds * NANOSECONDS)
    rows["time_ns"][rows["step"] > 5] += round(seconds * NANOSECONDS)
    steps = steps_of(rows)
    return steps, {n: sli.good_and_total(steps) for n, sli in discover().items()}


def steps_of(rows: Rows) -> AttemptSteps:
    job = LiveJob(JOB)
    job.apply(
        segment(1, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.STEP: rows}),
        Received(0.0, 0.0),
    )
    ((_, steps),) = attempt_steps(job).items()
    return steps


@pytest.mark.parametrize("name", ["eval", "checkpoint"])
def test_a_step_in_which_rank_0_evaluates_or_saves_is_not_slow(name: str) -> None:
    _, sums = paused_steps(name, 3.0, 3.0)
    good, total = sums["step-time"]
    assert good.tolist() == total.tolist() and total[5] > 9.0
    _, without = paused_steps(name, 3.0, 0.0)
    assert without["step-time"][0][5] == 0.0, "a wait that nothing marks is a slow step"


@pytest.mark.parametrize("name", ["eval", "checkpoint"])
def test_the_step_in_which_others_wait_for_a_pause_of_the_last_one_is_not_slow(name: str) -> None:
    """Rank 0 pauses behind the collectives of step 5, so that the others wait in step 6."""
    rows = step_rows(range(10), range(4))
    pause, first = 3 * NANOSECONDS, rows["rank"] == 0
    pausing, waiting = first & (rows["step"] == 5), ~first & (rows["step"] == 6)
    rows[f"{name}_ns"][pausing] = pause
    rows["collective_ns"][waiting] += pause
    rows["duration_ns"][pausing | waiting] += pause
    rows["time_ns"][pausing | (rows["step"] > 5)] += pause
    steps = steps_of(rows)
    good, total = discover()["step-time"].good_and_total(steps)
    assert good.tolist() == total.tolist() and total[6] > 9.0
    rows[f"{name}_ns"] = 0
    good, total = discover()["step-time"].good_and_total(steps_of(rows))
    assert np.flatnonzero(good < total).tolist() == [5, 6], "nothing marks the pause"


def test_an_evaluation_is_good_device_time_and_a_save_is_not() -> None:
    for name, lost in (("eval", 0.0), ("checkpoint", 3.0)):
        good, total = paused_steps(name, 3.0, 3.0)[1]["goodput"]
        assert total[5] - good[5] == pytest.approx(lost, abs=1e-6)


@pytest.mark.parametrize(("marked", "lost"), [(25.0, 0.0), (0.0, 100.0)])
def test_a_stall_stays_lost_once_its_step_ends_as_in_the_account_of_device_time(
    marked: float, lost: float
) -> None:
    """All four ranks stand for 25 s; what nobody names an evaluation is a stall, before and after
    it ends."""
    steps, sums = paused_steps("eval", 25.0, marked)
    good, total = sums["goodput"]
    assert total[5] - good[5] == pytest.approx(lost, abs=1e-6)
    stalled = partition(steps)[5, CAUSES.index(Spent.STALL)] / MICROSECONDS
    assert stalled == pytest.approx(lost, abs=1e-5)


def states(service: Service) -> dict[str, SloState]:
    answer = service.job(JOB)
    assert answer is not None
    return {status.name: status.state for status in answer[1].slo_statuses}


def young_service(store: Store, clock: HandClock) -> Service:
    slos = {slo.name: slo for slo in default_slos() if slo.name in ("goodput", "step-time")}
    return Service(store, clock, objectives=Objectives(slos))


def test_a_healthy_young_run_is_too_early_and_a_stall_burns_while_it_lasts(store: Store) -> None:
    clock = HandClock(30.0)
    service = young_service(store, clock)
    service.receive(body(run_segments(150)))
    service.evaluate()
    assert set(states(service).values()) == {SloState.TOO_EARLY}
    for number in range(30):
        clock.advance(5.0)
        rows = state_rows(range(4), 4, clock.monotonic, 149)
        service.receive(body([segment(900 + number, {Kind.RANK_STATE: rows})]))
        service.evaluate()
    assert states(service) == {"goodput": SloState.BURNING, "step-time": SloState.BURNING}


def report(
    service: Service, clock: HandClock, number: int, phase: Phase, last: int, **columns: Any
) -> None:
    """Rank 0 stands in `phase`, and the others wait for it in a collective, 5 s later."""
    clock.advance(5.0)
    rows = state_rows(range(4), 4, clock.monotonic, last, columns.pop("moved_ago", 0.01))
    rows["phase"][0] = phase
    rows["in_collective"][1:] = 1
    rows["collective_since_ns"][1:] = rows["since_ns"][1:]
    for name, values in columns.items():
        rows[name] = values
    service.receive(body([segment(900 + number, {Kind.RANK_STATE: rows})]))
    service.evaluate()


@pytest.mark.parametrize("phase", [Phase.EVAL, Phase.CHECKPOINT])
def test_a_marked_pause_of_minutes_burns_nothing_in_a_young_run(store: Store, phase: Phase) -> None:
    clock = HandClock(30.0)
    service = young_service(store, clock)
    service.receive(body(run_segments(150)))
    for number in range(40):
        report(service, clock, number, phase, 149)
        assert set(states(service).values()) == {SloState.TOO_EARLY}, number
    # It is over, and the step that it is in has not ended yet.
    report(service, clock, 41, Phase.FORWARD, 149)
    assert set(states(service).values()) == {SloState.TOO_EARLY}
    for number in range(42, 60):
        report(service, clock, number, Phase.FORWARD, 149)
    assert set(states(service).values()) == {SloState.BURNING}, "a stall after it burns"


def test_a_rank_that_was_killed_in_its_evaluation_burns(store: Store) -> None:
    clock = HandClock(30.0)
    service = young_service(store, clock)
    service.receive(body(run_segments(150)))
    dead = np.array([ProcessState.ZOMBIE, *[ProcessState.SLEEPING] * 3])
    for number in range(20):
        report(service, clock, number, Phase.EVAL, 149, process_state=dead)
    assert set(states(service).values()) == {SloState.BURNING}


def test_a_run_that_hangs_in_its_start_burns_before_it_is_an_hour_old(store: Store) -> None:
    clock = HandClock(1.0)
    service = young_service(store, clock)
    started = lifecycle_rows(LifecycleEvent.START, range(4), 4)
    rows = state_rows(range(4), 4, 1.0)
    first = {Kind.LIFECYCLE: started, Kind.RANK_STATE: rows}
    service.receive(body([segment(1, first)]))
    state_by_time = {}
    for number in range(200):
        asleep = np.full(4, ProcessState.SLEEPING)
        moved_ago = clock.monotonic + 4.0
        quiet = {"process_state": asleep, "cpu_seconds": 1.0, "moved_ago": moved_ago}
        report(service, clock, number, Phase.OTHER, 0, **quiet)
        state_by_time[clock.monotonic] = states(service)["goodput"]
    legal = [state for time_s, state in state_by_time.items() if time_s < 600.0]
    assert set(legal) == {SloState.TOO_EARLY}
    assert state_by_time[max(state_by_time)] is SloState.BURNING
