from __future__ import annotations

import pytest

from .scenarios import AFTER_SECONDS, plan_scenario, way_named
from .ways import WAYS


def test_every_way_is_drawn_and_a_fifth_of_the_jobs_is_healthy() -> None:
    drawn = [plan_scenario(seed) for seed in range(400)]
    faulty = [plan for plan in drawn if plan.scenario.faults]
    assert {plan.way for plan in faulty} == {*WAYS}
    assert 50 <= len(drawn) - len(faulty) <= 110
    assert plan_scenario(3) == plan_scenario(3)


def test_a_fault_has_its_time_to_show() -> None:
    for seed in range(100):
        scenario = plan_scenario(seed).scenario
        assert all(fault.onset + AFTER_SECONDS <= scenario.seconds for fault in scenario.faults)
        assert all(
            fault.effect >= 1.0 or fault.kind.value.startswith("stopped")
            for fault in scenario.faults
        )


def test_a_way_can_be_asked_for() -> None:
    plan = plan_scenario(5, way_named("slow-data/storage"))
    assert plan.scenario.faults[0].kind.value == "slow-data"
    with pytest.raises(ValueError, match="slow-data/storage"):
        way_named("slow-data/magic")
