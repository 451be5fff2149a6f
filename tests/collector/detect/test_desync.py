"""Ranks that enter different collectives are distinguished; those that only lag are not."""

from __future__ import annotations

from stepwatch.collector.detect.desync import Entered, finding, from_flight, from_lines
from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.state.trackers.diagnoses import Diagnosis, FlightEntry
from stepwatch.signals.names import Cause
from stepwatch.signals.records import GilState, Op

GROUPS = {7: "0-2"}


def recorded(*calls: tuple[int, str, str], group: str = "0 default_pg") -> Diagnosis:
    flight = tuple(
        FlightEntry(group, number, op, sizes, "scheduled") for number, op, sizes in calls
    )
    return Diagnosis(1, True, True, GilState.FREE, -1, -1, "", "", "", "", flight)


def line(rank: int, nbytes: int, op: Op = Op.ALL_REDUCE, number: int = 9) -> Entered:
    return Entered(rank, 4, "backward", 7, op, number, nbytes)


def test_another_operation_under_the_same_number() -> None:
    previous = (1, "all_reduce", "9")
    usual, odd = recorded(previous, (2, "all_reduce", "9")), recorded(previous, (2, "barrier", ""))
    mismatch = from_flight({0: usual, 1: usual, 2: odd})
    assert mismatch is not None
    assert (mismatch.cause, mismatch.number) == (Cause.MISMATCHED_ORDER, 2)
    desync = finding(mismatch, [line(rank, 36) for rank in range(3)], 5.0)
    assert (desync.rank, desync.phase, desync.began_step) == (2, "backward", 4)
    assert "rank 2 barrier" in desync.summary and "ranks 0-1 all_reduce" in desync.summary


def test_other_sizes_under_the_same_number() -> None:
    mismatch = from_flight(
        {0: recorded((1, "all_reduce", "9")), 1: recorded((1, "all_reduce", "8"))}
    )
    assert mismatch is not None and mismatch.cause is Cause.MISMATCHED_SHAPE
    desync = finding(mismatch, [], 5.0)
    assert desync.rank == NO_RANK, "of two, nobody is anomalous"
    assert {item.text for item in desync.evidence} == {"all_reduce of [9]", "all_reduce of [8]"}


def test_a_rank_that_is_behind_or_in_another_group_disagrees_with_nobody() -> None:
    ahead, behind = (
        recorded((1, "all_reduce", "9"), (2, "barrier", "")),
        recorded((1, "all_reduce", "9")),
    )
    elsewhere = recorded((1, "broadcast", "5"), group="3 mesh_tp")
    assert from_flight({0: ahead, 1: behind, 2: elsewhere}) is None


def test_other_sizes_in_groups_that_only_share_a_name_are_no_mismatch() -> None:
    def between(group: str, other_group: str) -> bool:
        calls = (
            recorded((1, "all_reduce", "9"), group=group),
            recorded((1, "all_reduce", "8"), group=other_group),
        )
        return from_flight(dict(enumerate(calls))) is not None

    assert not between("3 mesh_tp", "3 mesh_tp"), "nobody knows whether they are one group"
    assert not between("3 mesh_tp [0,1]", "3 mesh_tp [2,3]")
    assert between("3 mesh_tp [0,1]", "3 mesh_tp [0,1]")


def test_uneven_operations_may_be_uneven() -> None:
    assert (
        from_flight({0: recorded((1, "all_to_all", "9")), 1: recorded((1, "all_to_all", "8"))})
        is None
    )
    assert from_lines([line(0, 8, Op.ALL_TO_ALL), line(1, 9, Op.ALL_TO_ALL)], GROUPS) is None


def test_lines_tell_other_sizes_only_of_the_same_collective() -> None:
    mismatch = from_lines([line(0, 4000), line(1, 2000), line(2, 4000)], GROUPS)
    assert mismatch is not None and (mismatch.group, mismatch.number) == ("0-2", 9)
    assert finding(mismatch, [line(1, 2000)], 1.0).rank == 1
    assert from_lines([line(0, 4000), line(1, 2000, number=8)], GROUPS) is None
    assert from_lines([line(0, 4000), line(1, 0)], GROUPS) is None, "0 is unknown, not empty"
