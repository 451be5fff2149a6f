"""What is new leaves before what is established, and one sender crowds out its own jobs only."""

from __future__ import annotations

from stepwatch.collector.state.holding.eviction import Room, surplus
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.job import LiveJob


def held_job(name: str, source: str = "", cells: int = 1, proven: bool = False) -> HeldJob:
    job = HeldJob(LiveJob(name), source=source)
    job.cells, job.is_proven = cells, proven
    return job


def evicted_names(jobs: list[HeldJob], room: Room) -> list[str]:
    """Names of what goes, in order."""
    return [job.name for job in surplus(jobs, room)]


def test_where_there_is_room_all_stay() -> None:
    assert evicted_names([held_job("a"), held_job("b", "x")], Room(8, 8)) == []


def test_newcomers_go_first_and_the_oldest_written_of_them() -> None:
    jobs = [
        held_job("old", proven=True),
        held_job("a"),
        held_job("b"),
        held_job("older", proven=True),
        held_job("c"),
    ]
    assert evicted_names(jobs, Room(3, 100)) == ["a", "b"]
    assert evicted_names(jobs, Room(1, 100)) == ["a", "b", "c", "old"]


def test_the_sender_with_most_newcomers_gives_way() -> None:
    flood = [held_job(f"flood-{number}", "evil") for number in range(4)]
    jobs = [held_job("real", "gpu-1"), *flood, held_job("other", "gpu-2")]
    assert evicted_names(jobs, Room(6, 100)) == [], "there is room"
    assert evicted_names(jobs, Room(3, 100)) == ["flood-0", "flood-1", "flood-2"]


def test_the_sender_whose_newcomers_have_most_cells_gives_way() -> None:
    jobs = [held_job("a", "gpu-1"), held_job("b", "gpu-1"), held_job("large", "evil", 98)]
    assert evicted_names(jobs, Room(100, 100)) == []
    assert evicted_names(jobs, Room(100, 99)) == ["large"]


def test_the_only_job_stays_however_large_it_is() -> None:
    assert evicted_names([held_job("large", "gpu-1", 1000)], Room(10, 100)) == []
    assert evicted_names([held_job("large", "", 1000, proven=True)], Room(10, 100)) == []


def test_newcomers_of_unknown_senders_share_what_there_is() -> None:
    jobs = [held_job(f"read-back-{number}") for number in range(8)]
    assert evicted_names(jobs, Room(8, 100)) == []
