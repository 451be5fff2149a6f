"""Passing faults, from segments to incidents: faults that end or move, and losses in turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.verdicts.scenario.plan import Loads, Pauses
from tests.verdicts.transient.cases import JOB, MOVING, ONE_RANK, Case
from tests.verdicts.transient.row import row_of

from .small_jobs import incidents

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize(("times", "lasts"), [(1.3, 40.0), (2.0, 20.0), (2.0, 60.0), (2.0, 120.0)])
def test_a_fault_that_ends_ends_its_incident_and_leaves_true_words(
    times: float, lasts: float
) -> None:
    row = row_of(Case(ONE_RANK, times, lasts))
    assert (row.incidents, row.notices, row.causes) == (1, 2, 0)
    assert row.ended <= 60.0
    assert row.opening == row.end == []


def test_slowness_that_moves_is_named_at_each_turn_at_what_it_costs() -> None:
    row = row_of(Case(MOVING, 2.0, 80.0))
    assert row.incidents >= 4
    assert row.opening == []


def verdicts_with(**changes: Any) -> list[dict[str, Any]]:
    return incidents(replace(JOB, seconds=200.0, **changes))


@pytest.mark.parametrize("seconds", [3.5, 7.0])
def test_a_rank_that_pauses_alone_is_named_however_long_it_pauses(seconds: float) -> None:
    (verdict,) = verdicts_with(pauses=Pauses(20, seconds, marked=False, rank=2))
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("straggler", 2, "other")
    assert verdict["throughput_lost_ratio"] == pytest.approx(seconds / (seconds + 10.4), abs=0.04)


def test_loaders_that_stall_in_turns_cost_the_job_and_no_rank() -> None:
    (verdict,) = verdicts_with(loads=Loads(stall_every=4, stall_seconds=1.5))
    assert (verdict["kind"], verdict["rank"]) == ("data-stall", -1)
    assert "stall in turns" in verdict["summary"]


def test_epochs_whose_beginnings_cost_a_fifth_of_the_time_are_said() -> None:
    (verdict,) = verdicts_with(loads=Loads(epoch_every=40, epoch_seconds=5.0))
    assert (verdict["kind"], verdict["rank"]) == ("data-stall", -1)
    assert verdict["throughput_lost_ratio"] == pytest.approx(0.2, abs=0.06)
