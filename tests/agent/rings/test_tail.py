"""The tail follows rings that appear, end, wrap, come back and lie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.rings.tail import CLOSED_FLUSHES, Tail
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter
from stepwatch.signals.blackbox.layout import HEAD_AT, HOOK_ERRORS_AT, pack_identity
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import RingError
from stepwatch.signals.processes import FRESH_HEARTBEAT_SECONDS, start_ticks
from stepwatch.signals.records import Kind, LifecycleEvent, ProcessState
from tests.agent.conftest import Rank, round_of, spooled
from tests.waiting import until

MakeAgent = Callable[..., Agent]


def dead_pid() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(20)
    return process.pid


def spooled_steps(agent: Agent) -> list[int]:
    tables = [part[Kind.STEP]["step"] for part in spooled(agent) if Kind.STEP in part]
    return np.concatenate(tables).tolist() if tables else []


def test_overruns_leave_a_gap_and_are_counted_once(tmp_path: Path, make_agent: MakeAgent) -> None:
    rank = Rank(tmp_path / "rings", capacity=16)
    agent = make_agent()
    rank.steps(40)
    in_the_way = agent.spool.folder / f".0000000000000001.seg.{os.getpid()}"
    in_the_way.mkdir()  # nothing can be spooled
    for _ in range(3):
        round_of(agent)
    assert (agent.tail.records_read, agent.tail.overruns, len(agent.spool)) == (0, 0, 0)
    in_the_way.rmdir()
    round_of(agent)
    assert (agent.tail.records_read, agent.tail.overruns) == (16, 24)
    tables = spooled(agent)[0]
    assert tables[Kind.STEP]["step"].tolist() == list(range(25, 41))
    gap = tables[Kind.GAP][0]
    assert (gap["rank"], gap["first_seq"], gap["last_seq"]) == (0, 1, 24)
    assert tables[Kind.RANK_STATE]["overruns"].tolist() == [24]
    rank.ring.close()


def test_a_segment_holds_what_a_collector_takes_and_the_rest_follows(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    ranks = [Rank(tmp_path / "rings", number, capacity=60_000) for number in range(2)]
    for rank in ranks:
        rank.steps(60_000)
    agent = make_agent()
    for _ in range(3):
        round_of(agent)
    sizes = [len(tables.get(Kind.STEP, [])) for tables in spooled(agent)]
    assert sizes == [49_152, 49_152, 120_000 - 2 * 49_152]
    for rank in ranks:
        rank.ring.close()


def test_a_closed_ring_is_reported_a_few_times_more_and_then_no_more(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    rank = Rank(tmp_path / "rings")
    agent = make_agent()
    rank.steps(3)
    rank.ring.close()
    for _ in range(CLOSED_FLUSHES + 4):
        round_of(agent)
    kinds = [set(tables) & {Kind.STEP, Kind.RANK_STATE} for tables in spooled(agent)]
    repeats = [{Kind.RANK_STATE}] * CLOSED_FLUSHES
    assert kinds == [{Kind.STEP, Kind.RANK_STATE}, *repeats], "its exit code may still come"


def test_a_rank_taken_for_dead_is_read_again(tmp_path: Path, make_agent: MakeAgent) -> None:
    identity = Identity("job", 0, 0, 1, "node-1", dead_pid(), 5, 64, process_start=1)
    ring = RingWriter(tmp_path / "rings/job/0/0", identity)
    agent = make_agent()
    for value in range(3):
        ring.write(Kind.LIFECYCLE, 0, 1, LifecycleEvent.START, value, b"")
        round_of(agent)
        round_of(agent)
    values = [int(row["value"]) for part in spooled(agent) for row in part.get(Kind.LIFECYCLE, [])]
    assert values == [0, 1, 2]
    ring.close()


def test_a_rank_in_another_pid_namespace_is_unknown_and_not_gone_while_its_heart_beats(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    rank = Rank(tmp_path / "rings", process=(dead_pid(), 1))
    agent = make_agent()
    for seconds_ago in (0.0, 0.5, 0.0, 2 * FRESH_HEARTBEAT_SECONDS, 2 * FRESH_HEARTBEAT_SECONDS):
        rank.ring.set_heartbeat(time.monotonic_ns() - round(seconds_ago * NANOSECONDS))
        round_of(agent)
    rows = np.concatenate([part[Kind.RANK_STATE] for part in spooled(agent)])
    assert rows["process_state"].tolist() == [*[ProcessState.UNKNOWN] * 3, ProcessState.GONE]
    assert np.isnan(rows["cpu_seconds"]).all() and np.isnan(rows["run_queue_seconds"]).all()
    rank.ring.close()


def test_a_rank_whose_parent_never_waits_for_it_is_gone_and_its_exit_code_is_sent(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    rank = Rank(tmp_path / "rings", process=(child.pid, start_ticks(child.pid)))
    agent = make_agent()
    agent.poll()
    agent.flush()
    child.kill()
    until("its end is seen", lambda: agent.exits.exit_of(rank.ring.identity.ring_id), 20.0)
    for _ in range(3):
        round_of(agent)
    *_, rows = (part[Kind.RANK_STATE] for part in spooled(agent) if Kind.RANK_STATE in part)
    assert rows["process_state"].tolist() == [ProcessState.GONE]
    assert rows["exit_code"].tolist() == [128 + signal.SIGKILL]
    assert len(spooled(agent)) == 2, "and nothing more is to come"
    child.wait(10)
    rank.ring.close()


def test_a_restarted_rank_is_read_from_its_first_record(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    agent = make_agent()
    old = Rank(tmp_path / "rings")
    old.steps(5)
    round_of(agent)
    old.steps(5)
    new = RingWriter(old.ring.path, old.ring.identity._replace(ring_id=77))
    new.write(Kind.LIFECYCLE, 0, 1, LifecycleEvent.START, 1, b"again")
    for _ in range(3):
        round_of(agent)
    assert spooled_steps(agent) == list(range(1, 11))
    texts = [row["text"] for part in spooled(agent) for row in part.get(Kind.LIFECYCLE, [])]
    assert texts == [b"again"]
    old.ring.close()
    new.close()


def test_a_ring_moved_away_and_back_is_not_read_twice(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    rank = Rank(tmp_path / "rings")
    agent = make_agent()
    rank.steps(5)
    round_of(agent)
    rank.ring.path.rename(tmp_path / "aside")
    round_of(agent)
    rank.steps(5)
    (tmp_path / "aside").rename(rank.ring.path)
    round_of(agent)
    assert spooled_steps(agent) == list(range(1, 11))
    rank.ring.close()


def test_a_removed_ring_is_released(tmp_path: Path, make_agent: MakeAgent) -> None:
    rank = Rank(tmp_path / "rings")
    agent = make_agent()
    rank.steps(2)
    round_of(agent)
    rank.ring.path.unlink()
    handles = len(os.listdir("/proc/self/fd"))
    rank.steps(2)  # written after the removal: still readable, still reported
    round_of(agent)
    round_of(agent)
    assert spooled_steps(agent) == [1, 2, 3, 4]
    assert agent.tail.attempts() == {}
    assert len(os.listdir("/proc/self/fd")) < handles
    rank.ring.close()


def ring_of_world(path: Path, world: int) -> bytes:
    """The ring at `path` with another number of ranks, under a checksum that matches."""
    raw = path.read_bytes()
    reader = RingReader(path)
    identity = pack_identity(reader.identity._replace(world=world))
    reader.close()
    return identity + raw[len(identity) :]


def test_hostile_rings_are_named_once_and_harm_no_other(
    tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    rank = Rank(tmp_path / "rings")
    mad = Rank(tmp_path / "rings", 1, job="mad", capacity=8)
    mad.ring.words[HEAD_AT // 8] = (1 << 64) - 1
    mad.ring.words[HOOK_ERRORS_AT // 8] = (1 << 64) - 1
    folder = tmp_path / "rings/job/0"
    (folder / "5").write_bytes(b"SWRING01" + os.urandom(5000))
    (folder / "6").write_bytes(b"")
    os.mkfifo(folder / "7")
    (folder / "9").write_bytes(ring_of_world(folder / "0", -1))
    cut = Rank(tmp_path / "rings", 8)
    agent = make_agent()
    round_of(agent)
    cut.ring.close()
    (folder / "8").chmod(0o600)
    os.truncate(folder / "8", 50)
    for _ in range(3):
        rank.steps(2)
        round_of(agent)
    assert spooled_steps(agent) == list(range(1, 7))
    for name in "56789":
        assert caplog.text.count(f"cannot read the ring {folder / name}:") == 1
    rank.ring.close()
    mad.ring.close()


def test_no_ring_directory_is_no_error(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "missing")
    tail.discover()
    assert tail.attempts() == {}


def test_a_ring_that_gets_its_rank_late_is_read_once(tmp_path: Path) -> None:
    rank = Rank(tmp_path / "rings", 0)
    tail = Tail(tmp_path / "rings")
    tail.discover()
    rank.steps(2)
    ((tails),) = tail.attempts().values()
    row_count = len(tail.read(tails)[Kind.STEP])
    rank.steps(3)
    ring = rank.ring
    ring.move(ring.path.with_name("5"), ring.identity._replace(rank=5, world=8))
    rank.steps(1)
    for _ in range(2):
        tail.discover()
    tail.forget_missing(time.monotonic_ns())
    ((tails),) = tail.attempts().values()
    steps = tail.read(tails)[Kind.STEP]
    assert (row_count, len(tails), len(steps), set(steps["rank"])) == (2, 1, 4, {5})
    assert [identity.world for identity in tail.identities()] == [8]
    ring.close()


def test_a_link_to_another_ring_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_rank = Rank(tmp_path / "mine")
    shared = tmp_path / "rings"
    (shared / "job" / "0").mkdir(parents=True)
    (shared / "job" / "0" / "0").symlink_to(own_rank.ring.path)
    (shared / "dir" / "0").mkdir(parents=True)
    tail = Tail(shared)
    tail.discover()
    assert tail.identities() == [] and "cannot read the ring" in caplog.text
    (shared / "other").symlink_to(own_rank.ring.path.parents[1])
    with pytest.raises(RingError, match="its path leads to"):
        RingReader(shared / "other" / "0" / "0", below=shared)
    own_rank.ring.close()
