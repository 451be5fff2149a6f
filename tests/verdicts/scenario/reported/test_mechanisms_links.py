"""Earlier wrong verdicts on collectives and links between stages: see `test_mechanisms`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.verdicts.scenario.examples import JOB
from tests.verdicts.scenario.plan import (
    Fault,
    FaultKind,
    History,
    Pauses,
    Shape,
)

from .small_jobs import incidents, job

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("named", [True, False])
def test_slow_transfers_between_stages_name_the_stages(*, named: bool) -> None:
    scenario = job(
        FaultKind.SLOW_STAGE_LINK, 0, effect=3.0, shape=Shape.PIPELINE, names_stages=named
    )
    verdicts = incidents(scenario)
    assert [verdict["kind"] for verdict in verdicts] == ["slow-collective"]
    assert "stages 0 and 1" in verdicts[0]["summary"]


def test_a_link_that_costs_a_tenth_is_named() -> None:
    (verdict,) = incidents(job(FaultKind.SLOW_LINK, 1, effect=1.12, seconds=190.0, onset=60.0))
    assert (verdict["kind"], verdict["cause"]) == ("slow-collective", "slow-transfer")


def test_a_save_that_is_late_hides_no_slow_link() -> None:
    saver = Fault(FaultKind.CHECKPOINT_STALL, (2,), effect=3.0, onset=10.0)
    link = Fault(FaultKind.SLOW_LINK, (1,), effect=4.0, onset=40.0)
    scenario = replace(JOB, step_seconds=0.5, faults=(saver, link), saves=Pauses(20, 0.15))
    kinds = {verdict["kind"] for verdict in incidents(replace(scenario, seconds=100.0))}
    assert kinds == {"checkpoint-stall", "slow-collective"}


def test_a_way_between_stages_that_costs_a_tenth_is_named() -> None:
    scenario = job(
        FaultKind.SLOW_STAGE_LINK, 1, effect=1.6, shape=Shape.PIPELINE, seconds=230.0, onset=60.0
    )
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["cause"]) == ("slow-collective", "slow-transfer")


def test_a_way_between_stages_that_was_slow_from_the_first_step_is_named() -> None:
    more: dict[str, Any] = {"shape": Shape.PIPELINE, "ranks": 8, "seconds": 60.0}
    (verdict,) = incidents(job(FaultKind.SLOW_STAGE_LINK, 3, effect=2.5, onset=0.0, **more))
    assert (verdict["kind"], verdict["cause"]) == ("slow-collective", "slow-transfer")
    assert "its schedule" in verdict["summary"]


@pytest.mark.parametrize("shape", [Shape.DDP, Shape.PIPELINE])
def test_a_link_that_was_slow_from_the_first_step_is_one_incident(shape: Shape) -> None:
    """It is named before the first steps are over, which are a job's baseline."""
    scenario = job(
        FaultKind.SLOW_LINK, 1, effect=8.0, onset=0.0, shape=shape, ranks=8, seconds=190.0
    )
    (verdict,) = incidents(replace(scenario, step_seconds=1.0))
    assert (verdict["kind"], verdict["cause"]) == ("slow-collective", "slow-transfer")
    assert verdict["opened_at"] < 100.0


def test_a_link_and_the_way_between_stages_that_are_slow_together_are_one_incident() -> None:
    more: dict[str, Any] = {"shape": Shape.PIPELINE, "ranks": 8, "seconds": 100.0}
    (verdict,) = incidents(job(FaultKind.SLOW_LINK, 1, effect=5.0, onset=40.0, **more))
    assert (verdict["kind"], verdict["cause"]) == ("slow-collective", "slow-transfer")


def test_a_slow_loader_hides_no_link_that_is_slow() -> None:
    loader = Fault(FaultKind.SLOW_DATA, (1,), onset=20.0, effect=1.4)
    link = Fault(FaultKind.SLOW_LINK, (0,), onset=50.0, effect=4.0)
    verdicts = incidents(replace(JOB, step_seconds=0.3, faults=(loader, link), seconds=100.0))
    assert {(verdict["kind"], verdict["rank"]) for verdict in verdicts} == {
        ("straggler", 1),
        ("slow-collective", -1),
    }


def test_stages_that_wait_for_the_data_of_one_are_no_slow_transfers() -> None:
    more: dict[str, Any] = {"shape": Shape.PIPELINE, "nodes": 1, "seconds": 110.0}
    scenario = job(FaultKind.SLOW_DATA, 1, effect=2.0, onset=55.0, **more)
    (verdict,) = incidents(replace(scenario, step_seconds=1.6))
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("straggler", 1, "data")


@pytest.mark.parametrize(
    ("history", "where"), [(History.ATTEMPT, "attempt 0"), (History.CLASS, "3 jobs of its class")]
)
def test_a_link_that_is_slow_from_the_first_step_is_found_beside_what_ran_before(
    history: History, where: str
) -> None:
    scenario = job(FaultKind.SLOW_LINK, 0, onset=0.0, effect=1.3, seconds=60.0, history=history)
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["cause"]) == ("slow-collective", "slow-transfer")
    assert f"longer than in {where}" in verdict["summary"]
    assert not incidents(replace(scenario, history=History.NONE)), "as the job may be made"


def test_of_a_link_that_takes_most_of_each_step_it_is_said_that_it_is_slower_than_before() -> None:
    """Long steps need twenty for a comparison: at first the job itself may be the reason."""
    more: dict[str, Any] = {"history": History.ATTEMPT, "seconds": 150.0}
    (verdict,) = incidents(job(FaultKind.SLOW_LINK, 0, onset=0.0, effect=6.0, **more))
    assert "or the job is made so" in verdict["summary"]
    assert "longer than in attempt 0" in verdict["summary_now"]


def test_a_slow_link_beside_a_process_that_is_stopped_now_and_then_is_an_incident_of_its_own() -> (
    None
):
    scenario = job(FaultKind.STOPPED_NOW_AND_THEN, 0, effect=0.19, seconds=110.0)
    link = Fault(FaultKind.SLOW_LINK, (3,), effect=2.5, onset=45.0)
    verdicts = incidents(replace(scenario, faults=(*scenario.faults, link)))
    assert sorted(verdict["kind"] for verdict in verdicts) == ["slow-collective", "straggler"]
