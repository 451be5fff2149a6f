"""A plan that cannot be run is refused with what to change."""

from __future__ import annotations

import pytest

from stepwatch.cli.simulate.faults import parse
from stepwatch.signals.errors import ConfigurationError, UsageError

from .conftest import plan_with


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"ranks": 0}, "--ranks 0 must be from 1"),
        ({"ranks": 10, "nodes": 4}, "cannot be shared evenly by --nodes 4; pass a multiple"),
        ({"nodes": 17}, "--nodes 17 must be from 1 to 16"),
        ({"step_seconds": float("nan")}, "--step-seconds nan must be from"),
        ({"collectives": 7}, "--collectives 7 must be from 1 to 6"),
        ({"speed": -1}, "--speed -1 must be from 0"),
        ({"steps": None}, "pass --steps or --seconds"),
        ({"steps": 0}, "--steps 0 must be from 1"),
        ({"job": "../x"}, "job name '../x' must be"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(values: dict[str, float], complaint: str) -> None:
    with pytest.raises((UsageError, ConfigurationError), match=complaint):
        plan_with(**values)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("hang:rank=16,step=2", "there is no rank 16, the last of --ranks 16 is 15"),
        ("hang:rank=1,step=12", "step 12 comes after the end"),
        ("hang:rank=1,step=2,attempt=1", "attempt must be 0"),
        ("slow-compute:rank=1,step=3,factor=-2", "must be a number from 0 up"),
        ("slow-compote", "did you mean 'slow-compute'"),
        ("kill:node=3", "no option 'node'"),
    ],
)
def test_faults_that_cannot_happen_are_refused(fault: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        plan_with(fault)


def test_a_fault_describes_itself_so_that_it_can_be_read_back() -> None:
    fault = parse("slow-link:rank=3,step=70")
    assert fault is not None
    assert parse(fault.describe()) == fault
    assert parse("none") is None
