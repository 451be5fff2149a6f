"""Cases are reproducible, cover ranks and steps, and can all be run."""

from __future__ import annotations

import pytest

from stepwatch.faults import FAULTS, parse_fault
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import PHASE_NAMES
from tests.verdicts.__main__ import arguments, select_cases
from tests.verdicts.cases import FAULTY, HALVES, HEALTHY, Draw, cases
from tests.verdicts.plan import read_plan

ALL = list(cases())


def test_a_seed_gives_the_same_case_each_time() -> None:
    assert list(cases()) == ALL


def test_every_fault_there_is_has_cases() -> None:
    used = {text.partition(":")[0] for case in ALL for text in case.plan.faults}
    assert used == set(FAULTS)


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_hits_several_ranks_and_steps_of_small_and_larger_worlds(name: str) -> None:
    draws = [Draw(case.name, case.seed) for case in ALL if case.name == name]
    assert len(draws) >= 4
    assert len({draw.step for draw in draws}) > 1
    assert len({draw.rank for draw in draws}) > 1
    assert {draw.world for draw in draws} == {4, 8}


def test_every_case_can_be_run_and_its_truth_be_said() -> None:
    for case in ALL:
        assert read_plan(case.plan.line()) == case.plan
        for text in case.plan.faults:
            fault = parse_fault(text)
            assert fault is not None
            assert fault.rank < case.plan.world
        if case.truth is not None:
            assert case.truth.kinds <= {kind.value for kind in FindingKind}
            assert case.truth.causes <= {cause.value for cause in Cause}
            assert case.truth.phases <= set(PHASE_NAMES)


def test_job_names_differ() -> None:
    assert len({case.plan.job for case in ALL}) == len(ALL)


def test_the_halves_hold_every_case_and_share_none() -> None:
    halves = [
        {case.plan.job for case in select_cases(arguments(["--half", half]))} for half in HALVES
    ]
    assert not halves[0] & halves[1]
    assert halves[0] | halves[1] == {case.plan.job for case in ALL}
    for half in HALVES:
        names = {case.name for case in select_cases(arguments(["--half", half]))}
        assert names == {*FAULTY, *HEALTHY}


def test_healthy_runs_are_about_as_many_as_broken_ones() -> None:
    healthy = sum(case.truth is None for case in ALL)
    assert 0.8 <= healthy / (len(ALL) - healthy) <= 1.25


def test_a_choice_narrows_the_cases() -> None:
    selection = select_cases(
        arguments(["--only", "hang", "--seed", "1", "--seed", "3", "--limit", "1"])
    )
    assert [(case.name, case.seed) for case in selection] == [("hang", 1)]
