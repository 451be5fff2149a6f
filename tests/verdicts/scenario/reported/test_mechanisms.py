"""Earlier wrong verdicts, each as a small job, from segments to incidents.

`tests/verdicts/README.md` lists them with the tests of the parts that decide them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.verdicts.scenario.examples import JOB
from tests.verdicts.scenario.plan import (
    DYING,
    STANDING,
    Fault,
    FaultKind,
    Pace,
    Pauses,
    Scenario,
    Shape,
    Telemetry,
)
from tests.verdicts.scenario.scored.matching import is_page

from .replay import replay
from .small_jobs import incidents, job

pytestmark = pytest.mark.matrix


def test_work_that_differs_by_nature_is_no_straggling() -> None:
    for pace in (Pace.TOKENS, Pace.TWO_VALUED):
        assert not incidents(replace(JOB, step_seconds=0.5, pace=pace, seconds=90.0)), pace


def test_an_unmarked_pause_of_eight_seconds_is_no_page() -> None:
    pauses = Pauses(60, 8.0, marked=False)
    verdicts = incidents(replace(JOB, step_seconds=0.5, seconds=90.0, pauses=pauses))
    assert not [verdict for verdict in verdicts if is_page(verdict)]


@pytest.mark.parametrize(("kind", "seconds"), [(FaultKind.STOP, 90.0), (FaultKind.HANG, 150.0)])
def test_a_hang_pages_with_one_of_two_agents_gone(kind: FaultKind, seconds: float) -> None:
    lost = Telemetry(killed_node=1, killed_at=15.0)
    verdicts = incidents(job(kind, 0, telemetry=lost, seconds=seconds))
    pages = [verdict for verdict in verdicts if is_page(verdict) and verdict["opened_at"] > 30.0]
    assert [verdict["rank"] for verdict in pages if verdict["kind"] == "hang"] == [0]


def test_a_lost_node_is_the_cause_and_no_survivor() -> None:
    verdicts = incidents(job(FaultKind.NODE_LOST, 2, 3, node=1, peers_raise=True))
    assert not [verdict for verdict in verdicts if verdict["rank"] in (0, 1)]
    assert any("node-1" in f"{verdict['node']} {verdict['summary']}" for verdict in verdicts)


def test_a_rank_that_leaves_early_is_the_cause_and_not_the_peers_that_lose_it() -> None:
    verdicts = incidents(job(FaultKind.EXIT_EARLY, 2, peers_raise=True))
    assert [verdict["rank"] for verdict in verdicts if verdict["kind"] == "rank-failed"] == [2]


def test_of_ranks_that_are_all_stopped_none_is_named() -> None:
    (verdict,) = incidents(job(FaultKind.STOP_ALL, 0, 1, 2, 3))
    assert verdict["kind"] == "hang"
    assert verdict["rank"] == -1


def test_ranks_in_crossed_groups_are_a_circle_with_both_groups_named() -> None:
    scenario = job(FaultKind.CROSSED_GROUPS, 1, shape=Shape.TENSOR, ranks=8)
    (page,) = [verdict for verdict in incidents(scenario) if is_page(verdict)]
    assert page["cause"] == "mismatched-order"


def test_a_rank_that_always_saves_longer_than_its_peers_is_named() -> None:
    scenario = job(
        FaultKind.CHECKPOINT_STALL, 2, onset=0.0, effect=5.0, saves=Pauses(30, 0.15), seconds=100.0
    )
    stalls = [verdict for verdict in incidents(scenario) if verdict["kind"] == "checkpoint-stall"]
    assert [verdict["rank"] for verdict in stalls] == [2]


def test_a_job_that_starves_from_its_first_step_waits_for_data() -> None:
    verdicts = incidents(job(FaultKind.SLOW_DATA_EVERYWHERE, 0, 1, 2, 3, onset=0.0, effect=4.0))
    assert [verdict["kind"] for verdict in verdicts] == ["data-stall"]


def test_memory_that_grows_is_no_cause_of_another_ranks_slow_loader() -> None:
    growth = Fault(FaultKind.MEMORY_GROWTH, (0,), effect=4.0, onset=20.0)
    slow = Fault(FaultKind.SLOW_DATA, (3,), effect=2.0, onset=40.0)
    verdicts = incidents(replace(JOB, step_seconds=0.5, faults=(growth, slow), seconds=100.0))
    assert ("straggler", 3) in {(verdict["kind"], verdict["rank"]) for verdict in verdicts}


def test_rare_and_long_steps_of_one_of_two_ranks_are_named_within_five_minutes() -> None:
    scenario = job(
        FaultKind.SLOW_DATA, 1, effect=3.0, period=20, ranks=2, nodes=1, seconds=330.0, onset=30.0
    )
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("straggler", 1, "data")


def test_a_loader_of_one_of_two_ranks_that_stalls_for_a_fifth_of_the_time_is_named() -> None:
    """One step in fifteen of two seconds waits for eight: a test without knowledge of loaders needs
    twelve of them.
    """
    scenario = job(FaultKind.SLOW_DATA, 1, effect=5.0, period=15, ranks=2, nodes=1, onset=0.0)
    (verdict,) = incidents(replace(scenario, step_seconds=2.0, pace=Pace.TOKENS, seconds=330.0))
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("straggler", 1, "data")
    assert verdict["opened_at"] <= 300.0


def test_few_long_steps_are_counted_while_an_agent_is_gone() -> None:
    """64 newer steps of two seconds are two minutes."""
    lost = Telemetry(killed_node=1, killed_at=100.0)
    scenario = job(
        FaultKind.SLOW_DATA, 3, effect=4.0, period=20, ranks=4, nodes=4, onset=0.0, telemetry=lost
    )
    verdicts = incidents(replace(scenario, step_seconds=1.8, seconds=260.0))
    assert {(verdict["kind"], verdict["rank"]) for verdict in verdicts} >= {("straggler", 3)}
    assert "straggler" not in {verdict["kind"] for verdict in verdicts if verdict["rank"] != 3}


def test_data_that_take_a_tenth_of_each_step_of_all_ranks_are_named() -> None:
    (verdict,) = incidents(
        job(FaultKind.SLOW_DATA_EVERYWHERE, 0, 1, 2, 3, effect=1.12, seconds=130.0)
    )
    assert (verdict["kind"], verdict["rank"]) == ("data-stall", -1)


def test_a_slow_node_that_is_a_whole_stage_is_named() -> None:
    scenario = job(
        FaultKind.SLOW_NODE, 6, 7, node=3, effect=1.3, shape=Shape.PIPELINE, ranks=8, nodes=4
    )
    (verdict,) = incidents(replace(scenario, seconds=200.0))
    assert (verdict["kind"], verdict["node"]) == ("pipeline-bubble", "node-3")


def test_a_rank_alone_in_its_stage_is_compared_with_what_it_took_before() -> None:
    scenario = job(
        FaultKind.SLOW_COMPUTE,
        1,
        effect=1.3,
        shape=Shape.PIPELINE,
        ranks=2,
        seconds=200.0,
        onset=60.0,
    )
    assert ("straggler", 1) in {
        (verdict["kind"], verdict["rank"]) for verdict in incidents(scenario)
    }


def test_the_first_to_leave_is_named_though_the_clock_of_another_node_is_behind() -> None:
    clocks = Telemetry(clock_seconds=(0.0, -28.0))
    verdicts = incidents(job(FaultKind.EXIT_EARLY, 0, peers_raise=True, telemetry=clocks))
    assert [verdict["rank"] for verdict in verdicts if verdict["kind"] == "rank-failed"] == [0]


def test_the_ranks_of_the_other_agents_are_compared_while_one_is_gone() -> None:
    lost = Telemetry(killed_node=1, killed_at=30.0)
    verdicts = incidents(
        job(FaultKind.SLOW_COMPUTE, 0, effect=1.6, onset=60.0, seconds=240.0, telemetry=lost)
    )
    assert [verdict["rank"] for verdict in verdicts if verdict["kind"] == "straggler"] == [0]
    assert "throughput-regression" not in {verdict["kind"] for verdict in verdicts}


@pytest.mark.parametrize("killed_node", [0, 1])
@pytest.mark.parametrize("kind", sorted(STANDING | DYING))
def test_every_hang_and_end_pages_with_one_of_two_agents_gone(
    kind: FaultKind, killed_node: int
) -> None:
    """The fault hits node 0, whole or its first rank; a busy rank may be evaluating."""
    everywhere = kind in (FaultKind.STOP_ALL, FaultKind.HANG_INSIDE)
    ranks = (0, 1, 2, 3) if everywhere else (0, 1) if kind is FaultKind.NODE_LOST else (0,)
    shape = {"shape": Shape.TENSOR, "ranks": 8} if kind is FaultKind.CROSSED_GROUPS else {}
    node = 0 if kind is FaultKind.NODE_LOST else -1
    lost = Telemetry(killed_node=killed_node, killed_at=30.0)
    more: dict[str, Any] = {"node": node, "peers_raise": True, "telemetry": lost, **shape}
    verdicts = incidents(job(kind, *ranks, onset=60.0, seconds=260.0, **more))
    lost_page = next(verdict for verdict in verdicts if verdict["kind"] == "telemetry-lost")
    assert is_page(lost_page) and "unknown" in lost_page["summary"]
    about_it = [verdict for verdict in verdicts if verdict["opened_at"] > 60.0]
    if kind is FaultKind.NODE_LOST and killed_node == 1:
        assert "nothing was received from any agent" in lost_page["summary"]
    elif kind in DYING:
        assert [verdict["kind"] for verdict in about_it] == ["rank-failed"]
        assert about_it[0]["rank"] in {0: (-1,), 1: ranks}[killed_node]
    elif kind is FaultKind.HANG_BUSY and killed_node == 1:
        assert [(verdict["kind"], verdict["rank"]) for verdict in about_it] == [("pause", 0)]
    else:
        assert [verdict["kind"] for verdict in about_it if is_page(verdict)] == ["hang"]


def test_a_rank_that_is_slow_now_and_then_is_named_beside_one_that_is_slow_more_often() -> None:
    often = Fault(FaultKind.SLOW_OPTIMIZER, (1,), effect=4.0, period=7, onset=20.0)
    seldom = Fault(FaultKind.SLOW_DATA, (3,), effect=3.0, period=25, onset=20.0)
    verdicts = incidents(replace(JOB, step_seconds=0.5, faults=(often, seldom), seconds=240.0))
    assert {(verdict["kind"], verdict["rank"]) for verdict in verdicts} == {
        ("straggler", 1),
        ("straggler", 3),
    }


def test_a_node_of_whole_stages_that_is_slow_now_and_then_is_named() -> None:
    more: dict[str, Any] = {"node": 1, "shape": Shape.PIPELINE, "ranks": 8, "seconds": 200.0}
    (verdict,) = incidents(job(FaultKind.SLOW_NODE, 4, 5, 6, 7, effect=5.0, period=10, **more))
    assert (verdict["kind"], verdict["node"]) == ("pipeline-bubble", "node-1")


def test_a_rank_alone_in_its_stage_that_is_slow_now_and_then_is_named() -> None:
    scenario = job(
        FaultKind.SLOW_COMPUTE, 1, effect=6.0, period=20, shape=Shape.PIPELINE, seconds=200.0
    )
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("straggler", 1, "backward")


def test_a_job_of_long_steps_that_starves_from_its_first_is_named_in_eight() -> None:
    scenario = job(
        FaultKind.SLOW_DATA_EVERYWHERE, 0, 1, 2, 3, onset=0.0, effect=10.0, seconds=150.0
    )
    (verdict,) = incidents(replace(scenario, step_seconds=1.0))
    assert (verdict["kind"], verdict["rank"]) == ("data-stall", -1)


def test_two_steps_far_beyond_all_others_are_enough() -> None:
    scenario = job(FaultKind.SLOW_COMPUTE, 2, effect=8.0, onset=100.0, seconds=140.0, ranks=8)
    (verdict,) = incidents(replace(scenario, step_seconds=1.0))
    assert (verdict["kind"], verdict["rank"]) == ("straggler", 2)
    assert verdict["opened_at"] < 100.0 + 3 * 7.0, "the third slow step is not over"


def test_a_job_that_starves_from_its_first_step_is_named_while_an_agent_is_gone() -> None:
    """The agent ends before the first steps are over, which are the job's baseline."""
    lost = Telemetry(killed_node=1, killed_at=60.0)
    scenario = job(FaultKind.SLOW_DATA_EVERYWHERE, 0, 1, 2, 3, onset=0.0, effect=9.0, seconds=150.0)
    verdicts = incidents(replace(scenario, step_seconds=1.0, telemetry=lost))
    assert {verdict["kind"] for verdict in verdicts} == {"data-stall", "telemetry-lost"}


def test_a_job_of_steps_of_seconds_that_starves_from_its_first_is_named_in_half_a_minute() -> None:
    scenario = job(FaultKind.SLOW_DATA_EVERYWHERE, 0, 1, 2, 3, onset=0.0, effect=6.5, seconds=60.0)
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"]) == ("data-stall", -1)


def test_a_rank_that_slows_its_job_from_the_first_step_is_named_after_three() -> None:
    """The warm-up of four steps is over; no step shows its duration without the fault."""
    scenario = job(FaultKind.SLOW_OPTIMIZER, 3, onset=0.0, effect=9.8, seconds=38.0)
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("straggler", 3, "optimizer")


def test_of_a_node_that_is_lost_before_it_was_seen_no_survivor_is_named() -> None:
    verdicts = incidents(job(FaultKind.NODE_LOST, 2, 3, node=1, onset=0.2, peers_raise=True))
    assert not [verdict for verdict in verdicts if verdict["rank"] in (0, 1)]
    assert any("ranks 2-3" in verdict["summary"] for verdict in verdicts)


def test_a_killed_rank_whose_agent_is_late_is_named_and_no_peer() -> None:
    late_agent = Telemetry(late_node=0, late_seconds=4.65)
    verdicts = incidents(job(FaultKind.KILL, 0, peers_raise=True, telemetry=late_agent))
    assert [(verdict["kind"], verdict["rank"]) for verdict in verdicts] == [("rank-failed", 0)]


def test_a_rank_that_hangs_in_a_marked_evaluation_is_named_after_two_minutes() -> None:
    """No process works; the phase alone would allow it 15 minutes."""
    scenario = job(FaultKind.HANG, 2, onset=72.0, seconds=220.0, pauses=Pauses(40, 6.0))
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("hang", 2, "eval")
    assert is_page(verdict)


@pytest.mark.parametrize(("kind", "seconds"), [("pause", 600.0), ("hang", 1000.0)])
def test_a_rank_that_spins_in_a_marked_evaluation_is_a_pause_and_then_a_hang(
    kind: str, seconds: float
) -> None:
    """It may evaluate more than before: a ticket comes long before the page."""
    scenario = job(FaultKind.HANG_BUSY, 2, onset=72.0, seconds=seconds, pauses=Pauses(40, 6.0))
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == (kind, 2, "eval")
    assert is_page(verdict) == (kind == "hang")


@pytest.mark.parametrize(("kind", "seconds"), [(FaultKind.STOP, 30.0), (FaultKind.HANG, 330.0)])
def test_a_rank_that_hangs_in_a_save_is_no_slow_storage(kind: FaultKind, seconds: float) -> None:
    """A save that takes three times as long as usual is a ticket, and would page no operator."""
    scenario = job(kind, 2, onset=97.0, seconds=97.0 + seconds, saves=Pauses(40, 6.0))
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["rank"], verdict["phase"]) == ("hang", 2, "checkpoint")
    assert is_page(verdict)


@pytest.mark.parametrize(
    ("step", "every", "killed"),
    [(0.5, 40, 22.5), (0.3, 100, 27.0)],
    ids=["as it begins", "seven steps before"],
)
def test_an_agent_that_ends_and_a_rank_that_evaluates_are_no_lost_node(
    step: float, every: int, killed: float
) -> None:
    """The others halt as its node becomes stale, or two seconds later, after common steps."""
    lost = Telemetry(killed_node=0, killed_at=killed)
    evaluates = Pauses(every, 30.0, rank=0)
    verdicts = incidents(
        replace(JOB, step_seconds=step, seconds=70.0, pauses=evaluates, telemetry=lost)
    )
    assert [verdict["kind"] for verdict in verdicts if is_page(verdict)] == ["telemetry-lost"]


def test_a_rank_alone_in_its_stage_that_starves_from_its_first_step_is_named() -> None:
    scenario = job(
        FaultKind.SLOW_DATA, 2, onset=0.0, effect=7.0, seconds=60.0, shape=Shape.PIPELINE
    )
    (verdict,) = incidents(replace(scenario, step_seconds=0.4))
    assert (verdict["kind"], verdict["rank"], verdict["cause"]) == ("data-stall", 2, "slow-data")


def test_work_that_differs_by_nature_is_no_straggling_where_half_of_it_is_not_observed() -> None:
    """The unobserved ranks have no long steps, as far as the telemetry shows."""
    lost = Telemetry(killed_node=1, killed_at=91.0)
    healthy = Scenario(
        5, Shape.FSDP2, 8, 2, step_seconds=0.9, pace=Pace.TWO_VALUED, seconds=1500.0, telemetry=lost
    )
    assert [verdict["kind"] for verdict in replay(healthy, 5).incidents] == ["telemetry-lost"]


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_rank_whose_tensor_partner_is_not_observed_is_not_slow_by_its_sequences(
    seed: int,
) -> None:
    """The others hide each other: two of them always have the same sequence."""
    lost = Telemetry(killed_node=0, killed_at=60.0)
    healthy = Scenario(
        seed, Shape.TENSOR, 4, 4, 1.0, pace=Pace.TWO_VALUED, seconds=450.0, telemetry=lost
    )
    assert [verdict["kind"] for verdict in replay(healthy, 5).incidents] == ["telemetry-lost"]


@pytest.mark.parametrize("shape", [Shape.DDP, Shape.PIPELINE])
def test_a_node_that_is_lost_before_it_was_seen_is_missed_while_the_others_wait_for_it(
    shape: Shape,
) -> None:
    """They are in a collective or at work that needs all ranks; a first step may take long."""
    scenario = job(FaultKind.NODE_LOST, 2, 3, node=1, onset=0.127, seconds=60.0, shape=shape)
    (verdict,) = incidents(scenario)
    assert (verdict["kind"], verdict["opened_at"] < 30.0) == ("telemetry-lost", True)
    assert "what ranks 2-3 do is unknown" in verdict["summary"]
    assert "no step is known yet" in verdict["summary"]
