"""Faults are parsed strictly; an error names the nearest valid one."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.faults import FAULTS, Fault, parse_fault
from stepwatch.faults.specs import Kill, SlowCompute
from stepwatch.signals.errors import UsageError


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_fault_is_read_by_name_alone_and_back_from_its_description(name: str) -> None:
    fault = parse_fault(name)
    assert type(fault) is FAULTS[name]
    assert parse_fault(fault.describe()) == fault


@given(
    rank=st.integers(0, 10**6),
    step=st.integers(0, 10**9),
    lasts=st.integers(0, 10**9),
    attempt=st.integers(0, 99),
    seconds=st.floats(0, 1e6),
)
def test_descriptions_round_trip(
    rank: int, step: int, lasts: int, attempt: int, seconds: float
) -> None:
    fault = SlowCompute(rank, step, step + lasts if lasts else 0, attempt, seconds)
    assert parse_fault(fault.describe()) == fault


def test_options_are_read_with_their_types() -> None:
    fault = parse_fault("kill:rank=1,step=7,attempt=2,stage=before-rename")
    assert fault == Kill(rank=1, step=7, attempt=2, stage="before-rename")
    assert parse_fault("none") is None
    assert parse_fault("slow-compute:") == SlowCompute()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("slow-compte", "did you mean 'slow-compute'?"),
        ("NONE", "known are slow-compute"),
        ("nonee", "did you mean 'none'?"),
        ("", "known are slow-compute"),
        ("none:rank=1", "no fault 'none'"),
        ("hang:rnk=1", "did you mean 'rank'?"),
        ("hang:name=x", "no option 'name'"),
        ("hang:point=x", "no option 'point'"),
        ("hang:rank", "no option 'rank'"),
        ("hang:rank=two", "rank='two' is not a number"),
        ("hang:rank=1.5", "is not a number"),
        ("hang:rank=", "is not a number"),
        ("hang:rank=-1", "must be a number from 0 up"),
        ("hang:seconds=nan", "must be a number from 0 up"),
        ("hang:seconds=inf", "must be a number from 0 up"),
        ("hang:seconds=-0.5", "must be a number from 0 up"),
        ("hang:rank=1,rank=2", "rank is given twice"),
        ("flip-bit:bit=99", "bit must be 0 to 31"),
        ("slow-compute:every=0", "every must be at least 1"),
        ("slow-compute:step=30,until=30", "until must be 0 or after step"),
    ],
)
def test_a_wrong_fault_is_refused_in_one_line_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_fault(text)
    assert hint in str(refused.value)
    assert "\n" not in str(refused.value)


@given(
    fault=st.builds(
        SlowCompute,
        step=st.integers(0, 9),
        until=st.integers(0, 12),
    ),
    step=st.integers(0, 15),
)
def test_a_fault_is_active_in_its_steps_only(fault: Fault, step: int) -> None:
    steps = range(fault.step, fault.until or 10**9)
    assert fault.active(step) is (step in steps)


def test_faults_cannot_be_changed_once_read() -> None:
    fault = parse_fault("hang")
    assert fault is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        fault.rank = 0  # type: ignore[misc]
