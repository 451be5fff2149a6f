"""A stalled job names the rank that did not arrive, and why; one that moves names none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect import hang
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.hang import (
    RankDiagnostics,
    RankSituation,
    allowed_seconds,
    stall_of,
)
from stepwatch.collector.state.trackers.diagnoses import Diagnosis, FlightEntry
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.records import GilState, Op, Phase, ProcessState

LIMITS = hang.LIMITS
WAITER = RankSituation(
    0, 50, Phase.BACKWARD, 2, False, True, Op.ALL_REDUCE, 80.0, 0.2, ProcessState.SLEEPING
)
ABSENT = WAITER._replace(rank=2, in_collective=False, phase=Phase.FORWARD, work=Work.NONE)


def detect(ranks: list[RankSituation], median: float = 0.5, longest: float = 0.5) -> list[Finding]:
    """What is found in ranks that stand like this."""
    return hang.detect(stall_of(ranks, median, longest, LIMITS))


def job(absent: RankSituation) -> list[RankSituation]:
    """Four ranks, of which all but `absent` wait in a collective."""
    ranks = [WAITER._replace(rank=rank) for rank in range(4)]
    ranks[absent.rank] = absent
    return ranks


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"process": ProcessState.GONE}, "process-gone"),
        ({"process": ProcessState.ZOMBIE}, "process-gone"),
        ({"process": ProcessState.STOPPED}, "process-stopped"),
        ({"process": ProcessState.UNINTERRUPTIBLE}, "uninterruptible-io"),
        ({"heartbeat_age": 20.0}, "interpreter-blocked"),
        ({"process": ProcessState.RUNNING}, "busy"),
        ({"process": ProcessState.SLEEPING}, "not-arrived"),
        ({"process": ProcessState.UNKNOWN, "heartbeat_age": math.nan}, "not-arrived"),
        ({"process": ProcessState.GONE, "work": None}, "process-gone"),
    ],
)
def test_each_cause(changes: dict[str, Any], cause: str) -> None:
    (finding,) = detect(job(ABSENT._replace(**changes)))
    assert (finding.rank, finding.phase, finding.cause) == (2, "forward", cause)
    assert finding.began_ago_seconds == 80.0
    assert "rank 2 did not arrive" in finding.summary
    assert any("waits in all_reduce" in item.name for item in finding.evidence)


@pytest.mark.parametrize("state", [ProcessState.STOPPED, ProcessState.GONE])
def test_a_dead_or_stopped_rank_is_named_even_inside_a_collective(state: ProcessState) -> None:
    ranks = job(WAITER._replace(rank=3, process=state))
    assert [item.rank for item in detect(ranks)] == [3]


def test_a_waiting_rank_blocked_for_a_moment_is_not_blamed() -> None:
    ranks = job(ABSENT)
    ranks[0] = ranks[0]._replace(process=ProcessState.UNINTERRUPTIBLE)
    assert [item.rank for item in detect(ranks)] == [2]


def test_all_wait_or_none_does_is_nobody() -> None:
    (finding,) = detect(job(WAITER._replace(rank=1)))
    assert (finding.rank, finding.cause) == (NO_RANK, "unknown")
    nobody = [ABSENT._replace(rank=rank, moved_age=1000.0) for rank in range(4)]
    assert [item.rank for item in detect(nobody)] == [NO_RANK]


def test_of_two_absent_the_one_behind() -> None:
    ranks = job(ABSENT)
    ranks[1] = ABSENT._replace(rank=1, step=49)
    assert [item.rank for item in detect(ranks)] == [1]


def test_a_single_rank_hangs_once_it_is_stopped_or_does_nothing_for_long() -> None:
    recently_moved = ABSENT._replace(moved_age=LIMITS.legal_seconds - 1.0)
    assert detect([recently_moved]) == []
    assert [
        item.rank for item in detect([recently_moved._replace(process=ProcessState.STOPPED)])
    ] == [2]
    assert [item.rank for item in detect([ABSENT])] == [2]
    works = ABSENT._replace(work=Work.CPU, moved_age=LIMITS.pause_seconds - 1.0)
    assert detect([works]) == []
    assert [item.rank for item in detect([works._replace(moved_age=LIMITS.pause_seconds)])] == [2]


def test_ranks_that_are_all_inside_may_be_in_a_transfer_for_as_long_as_bytes_move() -> None:
    """A broadcast of 20 s, or a link that flaps, is not a hang; a link that is cut is one."""

    def standing(age: float, **changes: Any) -> list[RankSituation]:
        return [WAITER._replace(rank=rank, moved_age=age, **changes) for rank in range(4)]

    spins = {"work": Work.CPU, "worked_age": 0.0}  # a rank that waits may use a CPU for it
    for changes in ({}, spins):
        assert detect(standing(LIMITS.legal_seconds - 1.0, **changes)) == []
        assert len(detect(standing(LIMITS.legal_seconds, **changes))) == 1
    moves = {"work": Work.BYTES | Work.CPU, "carried_age": 1.0}
    assert detect(standing(LIMITS.held_seconds - 1.0, **moves)) == []
    assert len(detect(standing(LIMITS.held_seconds, **moves))) == 1
    flaps = {"work": Work.NONE, "carried_age": 20.0}
    assert detect(standing(200.0, **flaps)) == []
    assert len(detect(standing(200.0, work=Work.NONE, carried_age=80.0))) == 1


def test_no_transfer_explains_a_rank_that_is_dead_or_waits_in_a_circle() -> None:
    ranks = [WAITER._replace(rank=rank, moved_age=6.0, group=1 + rank % 2) for rank in range(4)]
    circle = RankDiagnostics(groups={1: "0-3", 2: "0-3"})
    assert len(hang.detect(stall_of(ranks, 0.5, 0.5, LIMITS, circle))) == 1
    together = [item._replace(group=1) for item in ranks]
    assert hang.detect(stall_of(together, 0.5, 0.5, LIMITS, circle)) == []
    together[2] = together[2]._replace(process=ProcessState.GONE)
    (finding,) = hang.detect(stall_of(together, 0.5, 0.5, LIMITS, circle))
    assert finding.rank == 2


@pytest.mark.parametrize("work", [Work.CPU, Work.CHILDREN, Work.BYTES, None])
def test_a_rank_that_runs_or_may_run_is_waited_for_until_a_collective_gives_up(
    work: Work | None,
) -> None:
    def standing(age: float) -> list[RankSituation]:
        return [item._replace(moved_age=age) for item in job(ABSENT._replace(work=work))]

    assert detect(standing(LIMITS.held_seconds - 1)) == []
    assert [item.rank for item in detect(standing(LIMITS.held_seconds))] == [2]


def test_of_two_outside_one_that_runs_does_not_hide_one_that_does_not() -> None:
    ranks = job(ABSENT)
    ranks[1] = ABSENT._replace(rank=1, step=49, work=Work.CPU)
    assert [item.rank for item in detect(ranks)] == [2]
    ranks[2] = ABSENT._replace(work=Work.CPU)
    assert detect(ranks) == []
    ranks[3] = ABSENT._replace(rank=3, process=ProcessState.STOPPED)
    assert [item.rank for item in detect(ranks)] == [3]


def test_a_call_that_holds_the_interpreter_is_no_progress_though_it_uses_a_cpu() -> None:
    spins = ABSENT._replace(work=Work.CPU, heartbeat_age=LIMITS.legal_seconds - 1)
    assert detect(job(spins)) == []
    (finding,) = detect(job(spins._replace(heartbeat_age=LIMITS.legal_seconds + 1)))
    assert (finding.rank, finding.cause) == (2, "interpreter-blocked")
    assert detect(job(spins._replace(heartbeat_age=80.0, work=Work.BYTES))) == []


def test_ranks_that_all_use_no_cpu_may_wait_in_a_collective_that_no_line_shows() -> None:
    def standing(age: float, *works: Work | None) -> list[RankSituation]:
        ranks = [ABSENT._replace(rank=rank, moved_age=age) for rank in range(len(works))]
        return [item._replace(work=work) for item, work in zip(ranks, works, strict=True)]

    no_work = Work.NONE
    assert len(detect(standing(LIMITS.legal_seconds, no_work))) == 1
    assert detect(standing(LIMITS.legal_seconds - 1, no_work, no_work)) == []
    assert [item.rank for item in detect(standing(LIMITS.legal_seconds, no_work, no_work))] == [
        NO_RANK
    ]
    for works in [(no_work, Work.CPU), (no_work, None)]:
        assert detect(standing(LIMITS.pause_seconds - 1, *works)) == []
        assert len(detect(standing(LIMITS.pause_seconds, *works))) == 1


def test_recorders_tell_who_is_outside_where_no_line_shows_a_wait() -> None:
    ranks = [ABSENT._replace(rank=rank, work=Work.CPU) for rank in range(3)]
    ranks[1] = ABSENT._replace(rank=1)
    entries = {rank: FlightEntry("0", 7 - (rank == 1), "all_reduce", "4", "") for rank in range(3)}
    answers = RankDiagnostics(
        {
            rank: Diagnosis(0, True, False, GilState.UNKNOWN, 7, 6, "", "", "", "", (entry,))
            for rank, entry in entries.items()
        }
    )
    assert hang.detect(stall_of(ranks, 0.5, 0.5, LIMITS)) == []
    findings = hang.detect(stall_of(ranks, 0.5, 0.5, LIMITS, answers))
    assert [item.rank for item in findings] == [1]


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        (ProcessState.GONE, [2]),
        (ProcessState.ZOMBIE, [2]),
        (ProcessState.SLEEPING, []),
        (None, [2]),  # it finished
    ],
)
def test_start_up_is_no_reason_to_wait_for_a_rank_that_left(
    process: ProcessState | None, expected: list[int]
) -> None:
    ranks = [WAITER._replace(rank=rank, step=0, group=7) for rank in (0, 1, 3)]
    if process is not None:
        ranks.append(ABSENT._replace(step=0, process=process))
    other_ranks = hang.OtherRanks(ended=() if process is not None else (2,))
    groups = RankDiagnostics(groups={7: "0-3"})
    stall = stall_of(ranks, math.nan, math.nan, LIMITS, groups, other_ranks)
    assert [item.rank for item in hang.detect(stall)] == expected


def test_one_moving_rank_is_no_hang() -> None:
    ranks = job(ABSENT)
    ranks[3] = ranks[3]._replace(moved_age=0.1)
    assert detect(ranks) == []


def test_nothing_known_says_nothing() -> None:
    assert detect([]) == []


@pytest.mark.parametrize(
    ("phase", "median", "longest", "seconds"),
    [
        (Phase.FORWARD, 0.1, 0.3, LIMITS.least_seconds),
        (Phase.FORWARD, 10.0, 90.0, 10.0 * LIMITS.step_multiple),
        (Phase.FORWARD, math.nan, math.nan, LIMITS.first_step_seconds),
        (Phase.FORWARD, math.nan, 0.1, LIMITS.early_seconds),
        (Phase.FORWARD, math.nan, 20.0, 20.0 * LIMITS.step_multiple),
        (Phase.FORWARD, math.nan, 500.0, LIMITS.first_step_seconds),
        (Phase.CHECKPOINT, math.nan, 0.1, LIMITS.legal_seconds),
        (Phase.EVAL, 0.1, 0.1, LIMITS.legal_seconds),
    ],
)
def test_phases_have_their_allowance(
    phase: Phase, median: float, longest: float, seconds: float
) -> None:
    def standing(age: float) -> list[RankSituation]:
        ranks = [item._replace(moved_age=age) for item in job(ABSENT)]
        return [ranks[0], ranks[1], ranks[2]._replace(phase=phase), ranks[3]]

    assert allowed_seconds(standing(1.0), median, longest, LIMITS) == seconds
    assert stall_of(standing(seconds * 0.99), median, longest, LIMITS) is None
    assert stall_of(standing(seconds * 1.01), median, longest, LIMITS) is not None


@given(
    phase=st.integers(0, 2**16 - 1),
    op=st.integers(0, 2**16 - 1),
    process=st.sampled_from(ProcessState),
    ages=st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)),
    waiting=st.booleans(),
    inside=st.booleans(),
)
def test_any_situation_is_at_most_one_finding(
    phase: int,
    op: int,
    process: ProcessState,
    ages: tuple[float, float],
    waiting: bool,
    inside: bool,
) -> None:
    odd = RankSituation(2, 2**32 - 1, phase, 65535, waiting, inside, op, *ages, process)
    findings = detect([odd, *job(ABSENT)[:2]])
    assert len(findings) <= 1
    assert all(finding.rank in (NO_RANK, 0, 1, 2) for finding in findings)


def standing_together(process: ProcessState, node: str = "a") -> list[RankSituation]:
    """Four ranks of one or two nodes in one state, wherever they are."""
    ranks = [ABSENT._replace(rank=rank, process=process, node=node) for rank in range(4)]
    ranks[1] = ranks[1]._replace(in_collective=True)
    return ranks


@pytest.mark.parametrize(
    ("process", "cause"),
    [
        (ProcessState.STOPPED, "process-stopped"),
        (ProcessState.UNINTERRUPTIBLE, "uninterruptible-io"),
    ],
)
def test_ranks_that_one_act_holds_are_named_together(process: ProcessState, cause: str) -> None:
    ranks = standing_together(process)
    if process is ProcessState.UNINTERRUPTIBLE:
        ranks = [item._replace(in_collective=False) for item in ranks]
        short = [item._replace(moved_age=LIMITS.legal_seconds - 1) for item in ranks]
        assert detect(short) == [], "a save may block all of them for a while"
    (finding,) = detect(ranks)
    assert (finding.rank, finding.node, finding.cause) == (NO_RANK, "a", cause)
    assert "all 4 ranks of node a (ranks 0-3)" in finding.summary
    ranks[0] = ranks[0]._replace(node="b")
    (finding,) = detect(ranks)
    assert (finding.rank, finding.node) == (NO_RANK, "") and "all 4 ranks" in finding.summary


@pytest.mark.parametrize("phase", [Phase.EVAL, Phase.CHECKPOINT])
def test_processes_that_are_stopped_evaluate_nothing(phase: Phase) -> None:
    ranks = [item._replace(phase=phase) for item in standing_together(ProcessState.STOPPED)]
    (finding,) = detect(ranks)
    assert (finding.rank, finding.cause) == (NO_RANK, "process-stopped")
    ranks[0] = ranks[0]._replace(process=ProcessState.RUNNING, in_collective=False)
    soon = [item._replace(moved_age=LIMITS.legal_seconds - 1) for item in ranks]
    assert detect(soon) == [], "the one that runs may be evaluating for all"
    assert detect(ranks), "but those that are stopped do not come back"


def test_all_ranks_of_one_node_of_two_are_named_by_it() -> None:
    ranks = job(ABSENT)
    for rank in (2, 3):
        ranks[rank] = WAITER._replace(rank=rank, process=ProcessState.STOPPED, node="b")
    (finding,) = detect(ranks)
    assert (finding.rank, finding.node, finding.confidence) == (NO_RANK, "b", "certain")
    assert "all 2 ranks of node b (ranks 2-3) are stopped" in finding.summary


def test_ranks_whose_threads_all_end_at_one_time_are_frozen_and_none_is_named() -> None:
    frozen = [
        ABSENT._replace(rank=rank, heartbeat_age=29.0 + rank / 10, node="a") for rank in range(4)
    ]
    frozen[1] = frozen[1]._replace(in_collective=True)
    (finding,) = detect(frozen)
    assert (finding.rank, finding.node, finding.cause) == (NO_RANK, "a", "process-stopped")
    assert finding.confidence == "likely"
    frozen[2] = frozen[2]._replace(work=Work.CPU)
    assert detect(frozen[1:]) == [] or detect(frozen[1:])[0].rank != NO_RANK


def test_who_has_finished_is_named_by_those_that_wait_for_it() -> None:
    ranks = [WAITER._replace(rank=rank, group=7) for rank in range(3)]
    stall = stall_of(
        ranks, 0.5, 0.5, LIMITS, RankDiagnostics(groups={7: "0-3"}), hang.OtherRanks(ended=(3,))
    )
    (finding,) = hang.detect(stall)
    assert (finding.rank, finding.cause, finding.confidence) == (3, "process-gone", "certain")
    assert "rank 3 finished while ranks 0-2 wait in all_reduce of group 0-3" in finding.summary
