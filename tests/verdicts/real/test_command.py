from __future__ import annotations

from tests.verdicts.real.command import differences, scenario_of
from tests.verdicts.real.outside import KINDS
from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind
from tests.verdicts.scenario.scored.matching import match
from tests.verdicts.scenario.scored.test_matching import incident
from tests.verdicts.scenario.truth import expected

SLOW = expected(with_fault(FaultKind.SLOW_COMPUTE, 2, effect=2.0))


def test_real_scenarios_have_every_fault_that_a_signal_can_bring_about() -> None:
    drawn = [scenario_of(seed) for seed in range(200)]
    faults = [fault for scenario in drawn for fault in scenario.faults]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert 20 <= sum(not scenario.faults for scenario in drawn) <= 80
    assert all(fault.onset + 30.0 < each.seconds for each in drawn for fault in each.faults)
    assert scenario_of(3) == scenario_of(3)


def test_the_same_verdicts_at_other_moments_agree() -> None:
    real, replayed = match(SLOW, [incident(at=60.0)]), match(SLOW, [incident(at=75.0)])
    assert differences(real, replayed) == []


def test_another_rank_and_a_false_incident_are_differences() -> None:
    real = match(SLOW, [incident(rank=1)])
    replayed = match(SLOW, [incident(), incident("hang", 3, at=55.0)])
    found = differences(real, replayed)
    assert found == ["slow-compute: rank False, replayed True", "false incidents: 0, replayed 1"]
