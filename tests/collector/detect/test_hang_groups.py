"""A hang's words speak of a collective that the missing rank is a member of, or of none."""

from __future__ import annotations

import math

import pytest

from stepwatch.collector.detect import hang, rank_failed
from stepwatch.collector.detect.hang import RankDiagnostics, stall_of
from stepwatch.collector.detect.hang.holding import fell_silent_then
from stepwatch.collector.state.trackers.diagnoses import Diagnosis, FlightEntry
from stepwatch.signals.names import Cause
from stepwatch.signals.records import GilState

from .test_hang import ABSENT, LIMITS, WAITER

GROUPS = {1: "0,1", 2: "2,3"}


def summary(groups: dict[int, str], unseen: tuple[int, ...] = ()) -> str:
    """Ranks 0 and 1 wait in group 1, 2 in group 2 and 4 for its stage; 3 is outside or unseen."""
    ranks = [WAITER._replace(rank=rank, group=1 + rank // 2, moved_age=100.0) for rank in range(3)]
    ranks.append(WAITER._replace(rank=4, in_collective=False, waiting=True, moved_age=100.0))
    if not unseen:
        ranks.append(ABSENT._replace(rank=3, moved_age=100.0))
    other_ranks = hang.OtherRanks(unseen=tuple(hang.Unseen(rank, "b", 120.0) for rank in unseen))
    stall = stall_of(ranks, 0.5, 0.5, LIMITS, RankDiagnostics(groups=groups), other_ranks)
    (finding,) = hang.detect(stall)
    return finding.summary


def test_the_collective_that_is_named_is_one_of_the_rank_that_is_missing() -> None:
    assert "rank 3 did not arrive in all_reduce of group 2,3;" in summary(GROUPS)


def test_a_rank_that_no_group_with_waiting_ranks_holds_did_not_arrive_in_none_of_them() -> None:
    assert "rank 3 did not arrive;" in summary({1: "0,1", 2: "0-2"})


def test_a_group_whose_members_are_not_known_may_be_the_one() -> None:
    assert "rank 3 did not arrive in all_reduce;" in summary({1: "0,1"})


def test_ranks_that_nobody_observes_are_waited_for_in_a_group_of_theirs() -> None:
    assert "wait in all_reduce of group 2,3 for rank 3 on node b" in summary(GROUPS, unseen=(3,))


@pytest.mark.parametrize(
    ("silent", "step", "flush", "lost"),
    [
        (21.0, 0.3, 1.0, True),
        (21.7, 0.3, 1.0, True),
        (22.0, 0.3, 1.0, False),
        (22.0, 2.0, 1.0, True),
        (22.0, 0.3, 2.0, True),
        (26.0, 9.0, 9.0, False),
        (16.0, 0.3, 1.0, True),
        (14.0, 0.3, 1.0, False),
        (24.0, math.nan, 1.0, True),
        (math.nan, 0.3, 1.0, False),
    ],
)
def test_a_node_is_lost_where_it_fell_silent_a_flush_and_a_step_before_the_others_stopped(
    silent: float, step: float, flush: float, *, lost: bool
) -> None:
    """They stopped 20 s ago."""
    unseen = hang.Unseen(3, "b", silent, flush_seconds=flush)
    lost_seconds = rank_failed.LIMITS.lost_seconds
    assert fell_silent_then([unseen], 20.0, step, hang.LIMITS, lost_seconds) is lost


def test_a_rank_that_waits_for_a_lost_stage_is_not_blamed_by_its_flight_recorder() -> None:
    """Rank 0 receives from lost rank 2; rank 1 is inside the next collective of both."""
    receives = WAITER._replace(rank=0, in_collective=False, waiting=True, moved_age=20.0)
    inside = WAITER._replace(rank=1, group=1, moved_age=20.0)
    diagnoses = {
        rank: Diagnosis(
            0, True, False, GilState.UNKNOWN, 178, 177, "", "", "", "",
            (FlightEntry("0,1", 177 + rank, "all_reduce", "4", ""),),
        )
        for rank in (0, 1)
    }  # fmt: skip
    unseen = tuple(hang.Unseen(rank, "b", 21.0, flush_seconds=1.0) for rank in (2, 3))
    diagnostics = RankDiagnostics(diagnoses, {1: "0,1"})
    other_ranks = hang.OtherRanks(unseen=unseen)
    stall = stall_of([receives, inside], 0.5, 0.5, LIMITS, diagnostics, other_ranks)
    (finding,) = hang.detect(stall)
    assert (finding.cause, finding.rank, finding.node) == (Cause.NODE_LOST, -1, "b")
