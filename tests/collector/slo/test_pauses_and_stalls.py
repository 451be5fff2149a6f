"""Evaluations and saves are no bad steps, a stall burns, and a short run says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.openslo import default_slos
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.registry import discover
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    run_segments,
    segment,
    state_rows,
    step_rows,
)


def paused_steps(name: str, seconds: float, rank_seconds: float) -> tuple[Any, Any]:
    """Ten steps of 0.2 s on 4 ranks; in step 5 rank 0 pauses and the others wait for it."""
    rows = step_rows(range(10), range(4))
    at = rows["step"] == 5
    first = at & (rows["rank"] == 0)
    rows[f"{name}_ns"][first] = round(rank_seconds * NANOSECONDS)
    for column in ("duration_ns", "time_ns"):
        rows[column][at] += round(seconds * NANOSECONDS)
    rows["collective_ns"][at & ~first] += round(seconds * NANOSECONDS)
    rows["time_ns"][rows["step"] > 5] += round(seconds * NANOSECONDS)
    job = LiveJob(JOB)
    job.apply(
        segment(1, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.STEP: rows}),
        Received(0.0, 0.0),
    )
    ((_, steps),) = attempt_steps(job).items()
    return steps, {n: sli.good_and_total(steps) for n, sli in discover().items()}


@pytest.mark.parametrize("name", ["eval", "checkpoint"])
def test_a_step_in_which_rank_0_evaluates_or_saves_is_not_slow(name: str) -> None:
    _, found = paused_steps(name, 3.0, 3.0)
    good, total = found["step-time"]
    assert good.tolist() == total.tolist() and total[5] > 9.0
    _, without = paused_steps(name, 3.0, 0.0)
    assert without["step-time"][0][5] == 0.0, "a wait that nothing marks is a slow step"


def test_an_evaluation_is_good_device_time_and_a_save_is_not() -> None:
    for name, lost in (("eval", 0.0), ("checkpoint", 3.0)):
        good, total = paused_steps(name, 3.0, 3.0)[1]["goodput"]
        assert total[5] - good[5] == pytest.approx(lost, abs=1e-6)


def states(service: Service) -> dict[str, SloState]:
    answer = service.job(JOB)
    assert answer is not None
    return {each.name: each.state for each in answer[1].slo_statuses}


def test_a_healthy_young_run_is_too_early_and_a_stall_burns_while_it_lasts(store: Store) -> None:
    clock = HandClock(30.0)
    slos = {slo.name: slo for slo in default_slos() if slo.name in ("goodput", "step-time")}
    service = Service(store, clock, objectives=Objectives(slos))
    service.receive(body(run_segments(150)))
    service.evaluate()
    assert set(states(service).values()) == {SloState.TOO_EARLY}
    for number in range(30):
        clock.advance(5.0)
        rows = state_rows(range(4), 4, clock.monotonic, 149)
        service.receive(body([segment(900 + number, {Kind.RANK_STATE: rows})]))
        service.evaluate()
    assert states(service) == {"goodput": SloState.BURNING, "step-time": SloState.BURNING}
