"""A ring gets the place of its rank, once that is known, and never one whose owner lives."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.opening import launchers, placement
from stepwatch.hooks.opening.launchers import RankInWorld, launch_key
from stepwatch.signals import places
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter, find_rings
from stepwatch.signals.blackbox.layout import CLOSED_AT
from stepwatch.signals.places.turns import alone_in
from stepwatch.signals.processes import boot_number, pid_namespace, start_ticks
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.hooks.conftest import only_ring, rows_in

RingMaker = Callable[..., RingWriter]


@pytest.fixture
def write_ring(rings: Path) -> Iterator[RingMaker]:
    """Writes a ring of another launch, whose owner is this process, which lives."""
    opened: list[RingWriter] = []

    def write(rank: int = 0, job: str = "job", attempt: int = 0, **fields: Any) -> RingWriter:
        identity = Identity(
            job, attempt, rank, 2, "node", os.getpid(), 1000 + len(opened), 16,
            process_start=start_ticks(os.getpid()),
            pid_namespace=pid_namespace(), launch="another",
        )._replace(**fields)  # fmt: skip
        ring = RingWriter(rings / job / str(attempt) / str(rank), identity)
        opened.append(ring)
        return ring

    yield write
    for ring in opened:
        ring.close()


@pytest.fixture
def unnumbered(monkeypatch: pytest.MonkeyPatch) -> list[RankInWorld]:
    """Nobody has numbered this process; torch knows what is put into the list."""
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    torch_ranks: list[RankInWorld] = []
    tell_of_torch(monkeypatch, torch_ranks)
    return torch_ranks


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> list[RankInWorld]:
    """A launcher numbered the node, rank 0 of 1; torch knows what is put into the list."""
    torch_ranks: list[RankInWorld] = []
    tell_of_torch(monkeypatch, torch_ranks)
    return torch_ranks


def tell_of_torch(monkeypatch: pytest.MonkeyPatch, torch_ranks: list[RankInWorld]) -> None:
    """Have torch know the last of `known`, wherever it is asked."""
    for module in (launchers, placement):
        monkeypatch.setattr(
            module, "rank_of_torch", lambda: torch_ranks[-1] if torch_ranks else None
        )


def jobs(rings: Path) -> dict[str, int]:
    """World of the ring of each job, attempt and rank, by its path."""
    world_by_path = {}
    for path in find_rings(rings):
        reader = RingReader(path)
        world_by_path[str(path.relative_to(rings))] = reader.identity.world
        reader.close()
    return world_by_path


def test_a_ring_waits_for_its_rank_and_keeps_what_was_recorded(
    rings: Path, unnumbered: list[RankInWorld]
) -> None:
    watch = Watch.from_env(job="job")
    assert watch.enabled and jobs(rings) == {}
    watch.resumed(from_step=7)
    unnumbered.append(RankInWorld(2, 4))
    with watch.step():
        pass
    assert jobs(rings) == {"job/0/2": 4}
    rows = rows_in(rings, Kind.LIFECYCLE)
    assert rows["event"].tolist() == [
        LifecycleEvent.START, LifecycleEvent.RESUME, LifecycleEvent.START,
        LifecycleEvent.FIRST_STEP,
    ]  # fmt: skip
    assert rows["value"].tolist()[::2] == [1, 4]
    watch.close()
    assert only_ring(rings).closed and not list(rings.glob(".*"))


def test_a_process_that_nobody_numbers_is_alone_from_its_first_step(
    rings: Path, unnumbered: list[RankInWorld]
) -> None:
    watch = Watch.from_env(job="job")
    with watch.step():
        assert jobs(rings) == {"job/0/0": 1}
        unnumbered.append(RankInWorld(1, 2))  # the group is made inside the first step
    assert jobs(rings) == {"job/0/1": 2}
    watch.close()


def test_a_process_that_never_steps_is_recorded_after_a_while_or_at_its_end(
    rings: Path, unnumbered: list[RankInWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "ALONE_AFTER_SECONDS", 0.0)
    watch = Watch.from_env(job="job")
    heartbeat = watch.recorder.heartbeat
    assert heartbeat is not None and heartbeat.wait is not None
    heartbeat.wait()
    assert jobs(rings) == {"job/0/0": 1}
    watch.close()
    monkeypatch.setattr(placement, "ALONE_AFTER_SECONDS", 1e9)
    Watch.from_env(job="short").close()
    assert jobs(rings) == {"job/0/0": 1, "short/0/0": 1}


def test_what_torch_said_holds_once_its_group_is_destroyed(
    rings: Path, by_torch: list[RankInWorld]
) -> None:
    watch = Watch.from_env(job="job")
    by_torch.append(RankInWorld(1, 2))
    with watch.step():
        pass
    by_torch.clear()  # dist.destroy_process_group(): the launcher still says 0 of 1
    with watch.step():
        pass
    watch.close()
    assert jobs(rings) == {"job/0/1": 2}
    assert rows_in(rings, Kind.LIFECYCLE)["event"].tolist()[-1] == LifecycleEvent.FINISH


@pytest.mark.parametrize(
    ("at_start", "placed"),
    [
        ({"RANK": "0", "WORLD_SIZE": "1"}, {}),  # the parent's numbers
        ({"RANK": "3", "WORLD_SIZE": "4"}, {"job/0/0": 1}),  # the child has set its own since
        ({}, {"job/0/0": 1}),
    ],
)
def test_a_spawned_rank_has_no_number_from_its_parent(
    rings: Path,
    by_torch: list[RankInWorld],
    monkeypatch: pytest.MonkeyPatch,
    at_start: dict[str, str],
    placed: dict[str, int],
) -> None:
    monkeypatch.setattr(placement, "is_spawned", lambda: True)
    monkeypatch.setattr(placement, "environment_at_start", lambda: at_start)
    watch = Watch.from_env(job="job")
    assert jobs(rings) == placed
    by_torch.append(RankInWorld(1, 2))
    watch.close()
    assert jobs(rings) == {"job/0/1": 2}


def test_a_signal_handler_that_closes_the_watch_does_not_wait_for_its_own_thread(
    rings: Path, unnumbered: list[RankInWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch.from_env(job="job")
    place = watch.recorder.place
    assert place is not None
    nested: list[bool] = []

    def interrupted(*_: Any) -> str:
        nested.append(place(assume_single=True))
        return "job"

    monkeypatch.setattr(placement, "free_name", interrupted)
    placing = threading.Thread(target=place, daemon=True)  # a deadlock must not hang the tests
    placing.start()
    placing.join(timeout=30)
    assert nested == [False] and jobs(rings) == {"job/0/0": 1}
    watch.close()


def test_a_frameworks_rank_counts_at_once(rings: Path, unnumbered: list[RankInWorld]) -> None:
    watch = Watch.from_env(job="job", rank=1, world=2)
    assert jobs(rings) == {"job/0/1": 2}
    watch.close()


def test_a_second_launch_of_a_name_has_its_own_and_says_so_once(
    rings: Path, write_ring: RingMaker, caplog: pytest.LogCaptureFixture
) -> None:
    first = write_ring()
    watch = Watch.from_env(job="job")
    with watch.step():
        pass
    assert (first.written, only_ring(rings / "job").identity.ring_id) == (0, 1000)
    assert only_ring(rings / "job-2").identity.job == "job-2"
    (record,) = caplog.records
    assert "another run is recorded as job job on this node: this one is job-2" in record.message
    assert watch.guard.errors == 0
    watch.close()


def test_all_ranks_of_a_second_launch_take_the_same_name(
    rings: Path, write_ring: RingMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ring(rank=0)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    watch = Watch.from_env(job="job")  # its own place is free, its name is not
    assert set(jobs(rings)) == {"job/0/0", "job-2/0/1"}
    watch.close()


def test_a_restart_goes_on_under_the_name_of_its_launch(
    rings: Path, write_ring: RingMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ring(job="job-2", launch=launch_key(os.environ), pid=1, process_start=1)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    watch = Watch.from_env(job="job")
    assert "job-2/1/0" in jobs(rings)
    watch.close()


def test_ranks_of_an_earlier_attempt_may_still_be_ending(
    rings: Path, write_ring: RingMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ring(attempt=0)
    monkeypatch.setenv(places.ENV_ATTEMPT_BASE, "1")
    watch = Watch.from_env(job="job")
    assert "job/1/0" in jobs(rings)
    watch.close()


HERE = {"process_start": 1}
ELSEWHERE = {"process_start": 1, "pid_namespace": 1}


@pytest.mark.parametrize(
    ("fields", "beat_seconds_ago", "is_kept"),
    [
        (HERE, 0.0, False),  # the pid is another process's by now, however late the last beat was
        ({"pid": 1 << 30}, 0.0, False),  # killed a moment ago
        (ELSEWHERE, 0.5, True),  # a container beside this one
        (ELSEWHERE, 30.0, True),  # it is paused, or loads a model with the interpreter held
        (ELSEWHERE, 90.0, False),
        ({**HERE, "pid_namespace": 0, "launch": ""}, 0.5, True),  # unknown there
    ],
)
def test_a_place_is_kept_while_its_owner_lives(
    rings: Path,
    write_ring: RingMaker,
    fields: dict[str, Any],
    beat_seconds_ago: float,
    is_kept: bool,
) -> None:
    ring = write_ring(**fields)
    ring.set_heartbeat(time.monotonic_ns() - int(beat_seconds_ago * 1e9))
    watch = Watch.from_env(job="job")
    reader = RingReader(rings / "job/0/0")
    assert (reader.identity.ring_id == 1000) is is_kept
    reader.close()
    watch.close()


def test_a_ring_of_another_node_keeps_its_place_and_its_file(
    rings: Path, write_ring: RingMaker
) -> None:
    fields = {"pid": 1 << 30, "node": "another-node", "boot": boot_number() + 1}
    write_ring(**fields).set_heartbeat(1)
    hidden = RingWriter(rings / ".1.1", write_ring(job="hidden", **fields).identity)
    watch = Watch.from_env(job="job")
    assert set(jobs(rings)) == {"job/0/0", "job-2/0/0", "hidden/0/0"}
    assert (rings / ".1.1").exists(), "no node tells which processes of another one live"
    watch.close()
    hidden.close()


def test_a_closed_ring_gives_its_place_away(rings: Path, write_ring: RingMaker) -> None:
    write_ring().words[CLOSED_AT // 8] = 1
    watch = Watch.from_env(job="job")
    assert set(jobs(rings)) == {"job/0/0"}
    watch.close()


def test_a_record_that_another_rank_has_ended_is_not_replaced(
    rings: Path, write_ring: RingMaker
) -> None:
    pid = os.getppid()  # a process that lives
    own_launch = launch_key(os.environ)
    write_ring(pid=pid, process_start=start_ticks(pid), launch=own_launch).words[CLOSED_AT // 8] = 1
    watch = Watch.from_env(job="job")
    assert set(jobs(rings)) == {"job/0/0", "job-2/0/0"}
    watch.close()


def test_a_number_that_is_none_does_not_matter_where_torch_knows(
    rings: Path, by_torch: list[RankInWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "many")
    by_torch.append(RankInWorld(1, 2))
    watch = Watch.from_env(job="job")
    assert set(jobs(rings)) == {"job/0/1"}
    watch.close()


def test_a_ring_that_others_can_see_has_a_heartbeat(
    rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[int] = []
    rename = os.rename

    def look_first(source: Path, target: Path) -> None:
        reader = RingReader(source)
        beats.append(reader.heartbeat_ns)
        reader.close()
        rename(source, target)

    monkeypatch.setattr(os, "rename", look_first)
    watch = Watch.from_env(job="job")
    assert len(beats) == 2 and all(beats)
    watch.close()


def test_a_child_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        handles = list(Path("/proc/self/fd").iterdir())
        (lock,) = (handle.name for handle in handles if os.path.realpath(handle) == str(tmp_path))
        duplicate = os.dup(int(lock))  # what a fork does to it
    folder_handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder_handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder_handle)
    os.close(duplicate)


def test_a_socket_stays_beside_a_ring_that_cannot_move(
    rings: Path, by_torch: list[RankInWorld]
) -> None:
    watch = Watch.from_env(job="job")
    ring, place = watch.recorder.ring, watch.recorder.place
    assert ring is not None and place is not None
    socket = Path(ring.identity.worker_socket)
    socket.touch()
    (rings / "job/0/1").mkdir()  # in the way
    by_torch.append(RankInWorld(1, 2))
    assert not place(assume_single=True) and watch.guard.errors == 1
    assert ring.identity.worker_socket == str(socket) and socket.exists()
    (rings / "job/0/1").rmdir()
    assert place(assume_single=True) and not socket.exists()
    assert Path(ring.identity.worker_socket).exists()
    watch.close()


def test_a_ring_whose_owner_died_before_it_had_a_place_is_removed(
    rings: Path, unnumbered: list[RankInWorld]
) -> None:
    program = """
import os, signal
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
os.kill(os.getpid(), signal.SIGKILL)
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], env=environ, timeout=60, check=False)
    (unplaced_ring,) = rings.glob(".*")
    watch = Watch.from_env(job="job")
    assert not unplaced_ring.exists() and len(list(rings.glob(".*"))) == 1
    watch.close()


def test_a_place_that_cannot_be_made_is_one_line(
    rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rings.mkdir()
    (rings / "job").write_text("in the way")
    watch = Watch.from_env(job="job")
    assert not watch.enabled
    (record,) = caplog.records
    assert "cannot create the ring" in record.message and not list(rings.glob(".*"))
