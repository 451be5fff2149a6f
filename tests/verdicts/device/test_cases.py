"""Cases on the device are reproducible, cover the ways to write a loop, and can be run."""

from __future__ import annotations

import pytest

from stepwatch.faults import parse_fault
from tests.verdicts.__main__ import arguments, select_cases
from tests.verdicts.cases import HALVES, Draw
from tests.verdicts.cases import cases as on_host
from tests.verdicts.device.cases import FAULTY, HEALTHY, LOOPS, cases
from tests.verdicts.device.faults import DEVICE_FAULTS, device_fault
from tests.verdicts.device.work import DeviceWork
from tests.verdicts.plan import read_plan

ALL = list(cases())


def test_a_seed_gives_the_same_case_each_time() -> None:
    assert list(cases()) == ALL


def test_every_case_can_be_run() -> None:
    for case in ALL:
        assert case.plan.workload == "device"
        assert read_plan(case.plan.line()) == case.plan
        faults = [device_fault(described) for described in case.plan.device.faults]
        for fault in [*faults, *map(parse_fault, case.plan.faults)]:
            assert fault is not None
            assert fault.rank < case.plan.world
        assert case.plan.described_faults() or case.truth is None


def test_every_fault_of_a_device_has_cases() -> None:
    used = {described["name"] for case in ALL for described in case.plan.device.faults}
    assert used == set(DEVICE_FAULTS)


@pytest.mark.parametrize("half", HALVES)
def test_half_of_the_loops_of_each_half_mark_no_phases(half: str) -> None:
    marked = [case.plan.device.marked for case in ALL if case.half == half]
    assert 0.5 <= marked.count(False) / len(marked) <= 0.6


def test_faults_hit_loops_of_all_kinds() -> None:
    hit = [case.plan.device for case in ALL if case.truth is not None]
    for name, how in LOOPS.items():
        fields = {"microbatches": 1, "checkpointing": False, "captured": False, **how}
        assert any(_is(work, fields) for work in hit), name


def _is(work: DeviceWork, fields: dict[str, object]) -> bool:
    return all(getattr(work, name) == value for name, value in fields.items())


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_hits_small_and_larger_worlds_in_several_steps(name: str) -> None:
    draws = [Draw(case.name, case.seed) for case in ALL if case.name == name]
    assert {draw.world for draw in draws} == {4, 8}
    assert len({draw.step for draw in draws}) > 1


def test_job_names_differ_from_each_other_and_from_those_on_the_host() -> None:
    everything = [*ALL, *on_host()]
    assert len({case.plan.job for case in everything}) == len(everything)


def test_a_matrix_is_chosen() -> None:
    chosen_names = {case.name for case in select_cases(arguments(["--matrix", "device"]))}
    assert chosen_names == {*FAULTY, *HEALTHY}
    assert not {case.name for case in select_cases(arguments([]))} & chosen_names
    all_cases = select_cases(arguments(["--matrix", "all"]))
    assert len(all_cases) == len(ALL) + len(list(on_host()))


def test_one_case_is_found_by_its_name_alone() -> None:
    (case,) = select_cases(arguments(["--only", "device-stuck-kernel", "--seed", "1"]))
    assert (case.name, case.seed) == ("device-stuck-kernel", 1)
