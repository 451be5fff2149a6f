"""What is new leaves before what is established, and one sender crowds out its own jobs only."""

from __future__ import annotations

from stepwatch.collector.state.holding.eviction import Room, surplus
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.job import LiveJob


def held(name: str, source: str = "", cells: int = 1, proven: bool = False) -> HeldJob:
    job = HeldJob(LiveJob(name), source=source)
    job.cells, job.is_proven = cells, proven
    return job


def left(jobs: list[HeldJob], room: Room) -> list[str]:
    """Names of what goes, in order."""
    return [job.name for job in surplus(jobs, room)]


def test_where_there_is_room_all_stay() -> None:
    assert left([held("a"), held("b", "x")], Room(8, 8)) == []


def test_newcomers_go_first_and_the_oldest_written_of_them() -> None:
    jobs = [held("old", proven=True), held("a"), held("b"), held("older", proven=True), held("c")]
    assert left(jobs, Room(3, 100)) == ["a", "b"]
    assert left(jobs, Room(1, 100)) == ["a", "b", "c", "old"]


def test_the_sender_with_most_newcomers_gives_way() -> None:
    flood = [held(f"flood-{number}", "evil") for number in range(4)]
    jobs = [held("real", "gpu-1"), *flood, held("other", "gpu-2")]
    assert left(jobs, Room(6, 100)) == [], "there is room"
    assert left(jobs, Room(3, 100)) == ["flood-0", "flood-1", "flood-2"]


def test_the_sender_whose_newcomers_have_most_cells_gives_way() -> None:
    jobs = [held("a", "gpu-1"), held("b", "gpu-1"), held("large", "evil", 98)]
    assert left(jobs, Room(100, 100)) == []
    assert left(jobs, Room(100, 99)) == ["large"]


def test_the_only_job_stays_however_large_it_is() -> None:
    assert left([held("large", "gpu-1", 1000)], Room(10, 100)) == []
    assert left([held("large", "", 1000, proven=True)], Room(10, 100)) == []


def test_newcomers_of_unknown_senders_share_what_there_is() -> None:
    jobs = [held(f"read-back-{number}") for number in range(8)]
    assert left(jobs, Room(8, 100)) == []
