from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from .course.timeline import Timeline
from .examples import JOB, with_fault
from .plan import Fault, FaultKind, Pauses, Shape, Telemetry
from .truth import cost_of, expected, marginal_cost, shows_at


def test_a_device_that_takes_half_as_long_again_costs_a_good_quarter_of_the_throughput() -> None:
    scenario = with_fault(FaultKind.SLOW_COMPUTE, 2, effect=1.5)
    # Forward and backward are 0.8 of a step of 0.94: 0.4 more of 1.34.
    assert cost_of(scenario, scenario.faults[0]) == pytest.approx(0.29, abs=0.03)


def test_one_slow_step_in_ten_costs_a_tenth_of_that_time() -> None:
    scenario = with_fault(FaultKind.SLOW_DATA, 2, effect=2.0, period=10)
    assert cost_of(scenario, scenario.faults[0]) == pytest.approx(0.1, abs=0.02)


def test_a_process_stopped_for_two_fifths_of_the_time_costs_that_share() -> None:
    scenario = with_fault(FaultKind.STOPPED_NOW_AND_THEN, 1, effect=0.4)
    assert cost_of(scenario, scenario.faults[0]) == pytest.approx(0.4, abs=0.05)


def test_a_fault_costs_nothing_beside_one_that_all_wait_for_longer_and_by_itself_it_does() -> None:
    faults = tuple(
        Fault(FaultKind.SLOW_COMPUTE, (rank,), effect=effect, onset=50.0)
        for rank, effect in ((1, 1.5), (2, 4.0))
    )
    scenario = replace(JOB, faults=faults)
    assert cost_of(scenario, faults[0]) == pytest.approx(0.29, abs=0.03)
    assert marginal_cost(scenario, faults[0]) == pytest.approx(0.0, abs=0.01)
    assert marginal_cost(scenario, faults[1]) > 0.5
    link = Fault(FaultKind.SLOW_LINK, (3,), effect=1.5, onset=50.0)
    two_faults = replace(JOB, faults=(faults[1], link))
    assert 0.05 < marginal_cost(two_faults, link) < cost_of(two_faults, link), (
        "a part of a longer step"
    )
    assert {
        expectation.marginal_cost for expectation in expected(replace(JOB, faults=(link,)))
    } == {cost_of(two_faults, link)}


def test_who_is_slow_waits_least_and_all_end_together() -> None:
    scenario = with_fault(FaultKind.SLOW_COMPUTE, 2, effect=3.0)
    step = list(Timeline(scenario).steps())[-2]
    waits = step.spent["collective"]
    assert int(np.argmin(waits)) == 2
    assert np.ptp(step.end) < 0.1


def test_a_fault_shows_when_the_first_step_that_it_slows_is_over() -> None:
    """From second 50: steps of a good second that take six more, and a save every 20 steps."""
    scenario = with_fault(FaultKind.SLOW_OPTIMIZER, 2, effect=7.0)
    assert 50.0 + 6.5 < shows_at(scenario, scenario.faults[0]) < 50.0 + 9.0
    seldom = with_fault(FaultKind.SLOW_OPTIMIZER, 2, effect=7.0, period=20)
    assert 57.0 < shows_at(seldom, seldom.faults[0]) < 50.0 + 29.0
    slow_save = with_fault(FaultKind.CHECKPOINT_STALL, 2, effect=7.0)
    slow_save = replace(slow_save, saves=Pauses(20, 0.2))
    assert 57.0 < shows_at(slow_save, slow_save.faults[0]) < 50.0 + 30.0
    for kind in (FaultKind.STOPPED_NOW_AND_THEN, FaultKind.STOP):
        job = with_fault(kind, 2, effect=0.4)
        assert math.isnan(shows_at(job, job.faults[0]))


@pytest.mark.parametrize("kind", [FaultKind.STOP, FaultKind.KILL, FaultKind.HANG])
def test_nobody_ends_the_step_in_which_one_rank_stands(kind: FaultKind) -> None:
    last = list(Timeline(with_fault(kind, 3)).steps())[-1]
    assert 45.0 < last.began.max() < 60.0
    assert np.isinf(last.end).all()


def test_nobody_leaves_a_collective_in_which_one_process_is_stopped() -> None:
    steps = list(Timeline(replace(JOB, seconds=20.0)).steps())
    call = steps[9].calls[0]
    inside = float(call.arrived.max() + np.nanmin(call.exposed) / 2)
    for kind in (FaultKind.STOP, FaultKind.HANG):
        scenario = replace(JOB, seconds=20.0, faults=(Fault(kind, (3,), onset=inside),))
        timeline = Timeline(scenario)
        hit = list(timeline.steps())[9]
        stopped = kind is FaultKind.STOP
        assert np.isinf(hit.calls[0].exposed).all() == stopped
        # A thread that hangs by itself leaves first, and stops in its next work.
        stands = timeline.interruptions.stands_from[3]
        assert np.isinf(stands) if stopped else inside < stands < 20.0


@pytest.mark.parametrize("shape", Shape)
def test_a_job_of_any_shape_goes_on_without_a_fault(shape: Shape) -> None:
    scenario = replace(JOB, shape=shape, seconds=30.0)
    steps = list(Timeline(scenario).steps())
    assert 20 <= len(steps) <= 40
    for step in steps:
        phase_sum = sum(step.spent.values(), np.zeros(4))
        np.testing.assert_allclose(phase_sum, step.end - step.began, rtol=1e-6)


def test_ranks_that_enter_two_groups_in_the_other_order_wait_in_a_circle() -> None:
    scenario = replace(
        with_fault(FaultKind.CROSSED_GROUPS, 1), shape=Shape.TENSOR, ranks=8, seconds=80.0
    )
    timeline = Timeline(scenario)
    last = list(timeline.steps())[-1]
    members = timeline.layout.members
    standing = [
        max(
            (place for place in last.places if place.start[rank] < np.inf),
            key=lambda place, rank=rank: float(place.start[rank]),  # type: ignore[misc]
        )
        for rank in range(4)
    ]
    groups = [place.groups[rank] for rank, place in enumerate(standing) if place.groups]
    assert [members[group] for group in groups] == [(0, 1), (1, 3, 5, 7), (0, 2, 4, 6), (2, 3)]


def test_what_nobody_observes_need_not_be_named_but_a_hang_there_must_be_found() -> None:
    telemetry = Telemetry(killed_node=1, killed_at=20.0)
    slow = replace(with_fault(FaultKind.SLOW_COMPUTE, 3, effect=3.0), telemetry=telemetry)
    stop = replace(with_fault(FaultKind.STOP, 3), telemetry=telemetry)
    required = {expectation.truth.fault: expectation.required for expectation in expected(slow)}
    assert required == {"slow-compute": False, "agent-killed": True}
    assert next(expectation for expectation in expected(stop) if expectation.stops).truth.ranks == {
        -1,
        2,
        3,
    }


def test_the_others_go_on_to_the_next_collective_when_one_rank_stands_behind_it() -> None:
    # The optimizer of step 30 runs while second 30.9 passes: no collective of that step is left.
    scenario = with_fault(FaultKind.HANG, 3)
    steps = list(Timeline(scenario, faulty=False).steps())
    step = steps[30]
    onset = float(step.end.max() - 0.02)
    shifted = replace(scenario, faults=(replace(scenario.faults[0], onset=onset),))
    *_, behind, last = Timeline(shifted).steps()
    assert np.isfinite(behind.end).tolist() == [True, True, True, False]
    assert np.isfinite(last.places[3].start).tolist() == [True, True, True, False]
    assert np.isinf(last.end).all()


def test_a_stage_that_gets_no_further_microbatch_waits_and_does_not_work() -> None:
    # Rank 0 falls asleep in the middle of its forward, after rank 1 has taken some microbatches.
    asleep = replace(with_fault(FaultKind.HANG, 0), shape=Shape.PIPELINE, ranks=2, nodes=1)
    healthy = list(Timeline(asleep, faulty=False).steps())[30]
    onset = float(healthy.began.max()) + 0.5 * float(healthy.spent["forward"][0])
    shifted = replace(asleep, faults=(replace(asleep.faults[0], onset=onset),))
    last = list(Timeline(shifted).steps())[-1]
    places = [place for place in last.places if place.start[1] < np.inf]
    assert places[-1].waits and places[-1].start[1] >= onset


def test_groups_that_need_no_lost_rank_end_their_collectives() -> None:
    """Of four pairs one is lost: the others wait for it only where all replicas meet."""
    lost = Fault(FaultKind.NODE_LOST, (4, 5), node=2, onset=20.0)
    scenario = replace(
        JOB, shape=Shape.TENSOR, ranks=8, nodes=4, step_seconds=0.5, faults=(lost,), seconds=30.0
    )
    last = [*Timeline(scenario).steps()][-1]
    meets = [place for place in last.places if place.groups is not None]
    alive = [0, 1, 2, 3, 6, 7]
    assert len(meets) == 5
    assert all(np.isfinite(place.start[alive]).all() for place in meets)
    assert np.isinf(last.end).all()


@pytest.mark.parametrize(("ranks", "named"), [(4, {-1}), (2, {-1, 1})])
def test_where_all_are_stopped_the_only_one_that_is_observed_may_be_named(
    ranks: int, named: set[int]
) -> None:
    scenario = with_fault(FaultKind.STOP_ALL, *range(ranks))
    lost = Telemetry(killed_node=0, killed_at=20.0)
    first, *_ = expected(replace(scenario, ranks=ranks, telemetry=lost))
    assert first.truth.ranks == named
