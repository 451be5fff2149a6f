"""An agent that lives for a year: what it holds does not grow with the jobs that have ended."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.probes.ranks import RanksProbe
from stepwatch.agent.rings import copies, ended, tail
from stepwatch.agent.rings.bounds import ELSEWHERE, RingBounds
from stepwatch.agent.rings.ended import KEPT_SECONDS
from stepwatch.cli.verbs import blackbox
from stepwatch.signals import places
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter, find_rings
from stepwatch.signals.blackbox.layout import CLOSED_AT
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.processes import boot_number, has_ended, pid_namespace, start_ticks
from stepwatch.signals.records import Kind, LifecycleEvent, Phase
from tests.agent.probes.hand_clock import HandClock
from tests.agent.spool.test_unreadable import without_descriptors
from tests.waiting import until

JOBS, RANKS = 300, 2
MOST_PLACES = 64
SPARE = 256
"""Descriptors beyond those of this process, whose other threads use some: 300 jobs that keep theirs
need 5,100."""


class Job:
    """A process that writes some steps on each of its ranks, and ends."""

    def __init__(
        self, root: Path, name: str, ranks: int = RANKS, clock: int = 0, **fields: Any
    ) -> None:
        self.process = subprocess.Popen(["sleep", "60"])
        pid = self.process.pid
        self.rings = []
        for rank in range(ranks):
            number = int.from_bytes(os.urandom(7), "little")
            identity = Identity(
                name, 0, rank, ranks, "n1", pid, number, 64,
                process_start=start_ticks(pid), pid_namespace=pid_namespace(), boot=boot_number(),
            )._replace(**fields)  # fmt: skip
            ring = RingWriter(root / name / "0" / str(rank), identity, clock)
            ring.write(Kind.LIFECYCLE, 0, 1, LifecycleEvent.START, ranks, b"n1")
            self.rings.append(ring)
        self.steps(3)

    def steps(self, count: int) -> None:
        for step in range(1, count + 1):
            phases = [1_000_000] * (len(Phase) + 2)
            for ring in self.rings:
                ring.write(Kind.STEP, step, 2, sum(phases), *phases, 64, 4, 0, 1.0 / step, 0.5)

    def end(self, *, closed: bool = True) -> None:
        for ring in self.rings:
            if closed:
                ring.close()
            else:
                ring.words.release()
                ring._slots.release()
                ring._map.close()
        self.process.kill()
        self.process.wait(20)


@pytest.fixture
def clock() -> HandClock:
    new_clock = HandClock()
    new_clock.now = 10_000 * NANOSECONDS
    return new_clock


@pytest.fixture
def agent(tmp_path: Path, clock: HandClock) -> Iterator[Agent]:
    options = AgentOptions(
        tmp_path / "rings", tmp_path / "spool", "http://127.0.0.1:9", "n1", None,
        kernel_log=tmp_path / "kmsg",
    )  # fmt: skip
    new_agent = Agent(options, clock, probes=[RanksProbe])
    yield new_agent
    new_agent.close()


def turn(agent: Agent, clock: HandClock, count: int = 1, *, sent: bool = True) -> None:
    """What the loop and the sender do in so many seconds."""
    for _ in range(count):
        clock.now += NANOSECONDS
        agent.poll()
        agent.flush()
        if sent:
            agent.spool.acknowledge([number for number, _ in agent.spool.oldest(1000)])


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_hundreds_of_ended_jobs_leave_nothing_behind(
    tmp_path: Path, agent: Agent, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MOST_CURSORS", MOST_PLACES)
    turn(agent, clock)
    descriptors_before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors_before + SPARE, hard))
    try:
        for number in range(JOBS):
            job = Job(tmp_path / "rings", f"job-{number}")
            turn(agent, clock)
            job.end(closed=number % 2 == 0)
            turn(agent, clock)
        turn(agent, clock, 70)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert descriptors() <= descriptors_before + 1, "the epoll of exits"
    assert agent.tail.records_read == JOBS * RANKS * 4
    assert [path.name for path in (tmp_path / "rings").iterdir()] == []
    assert agent.tail.identities() == [] and len(agent.ended_rings) == 0
    assert agent.errors.counts == {}
    assert len(agent.tail.cursors) <= MOST_PLACES and agent.spool._acknowledged.cursors == {}
    assert not agent.exits._watched and not agent.exits._ended
    assert len(agent.ended_rings.copies) == JOBS * RANKS
    assert len(agent.tail._users._owner) <= JOBS


def test_the_last_facts_of_an_ended_job_are_found_in_its_copy(
    tmp_path: Path, agent: Agent, clock: HandClock, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path / "rings", "llama")
    turn(agent, clock)
    originals = [path.read_bytes() for path in find_rings(tmp_path / "rings")]
    job.end(closed=False)
    turn(agent, clock, 30)
    assert len(list(find_rings(tmp_path / "rings"))) == RANKS, "who launched it looks at it"
    turn(agent, clock, 40)
    assert list(find_rings(tmp_path / "rings")) == []
    copied = list(find_rings(tmp_path / "spool" / copies.FOLDER))
    assert len(copied) == RANKS and all(path.stat().st_size < 4_000 for path in copied)
    for path, original in zip(copied, originals, strict=True):
        reader = RingReader(path)
        assert reader.identity.job == "llama" and reader.head == 4
        assert len(reader.read().rows[Kind.STEP]) == 3
        assert os.pread(reader._file, 1 << 20, 0).rstrip(b"\0") == original.rstrip(b"\0")
        reader.close()
    (ring, _) = (blackbox.ring_facts(path, 2) for path in copied)
    assert (ring["job"], ring["process"], ring["last_finished_step"]) == ("llama", "gone", 3)


def test_a_ring_stays_until_its_records_are_sent_and_its_owner_is_gone(
    tmp_path: Path, agent: Agent, clock: HandClock
) -> None:
    job = Job(tmp_path / "rings", "job")
    turn(agent, clock, 3)
    for ring in job.rings:
        ring.close()
    turn(agent, clock, 12)
    assert len(agent.tail.identities()) == 0, "nothing more is written: no descriptor is kept"
    assert len(list(find_rings(tmp_path / "rings"))) == RANKS, "its process lives"
    late_job = Job(tmp_path / "rings", "late")
    turn(agent, clock, sent=False)
    late_job.end()
    job.process.kill()
    job.process.wait(20)
    turn(agent, clock, 130, sent=False)
    names = {path.parts[-3] for path in find_rings(tmp_path / "rings")}
    assert names == {"late"}, "its records are not sent"
    turn(agent, clock, round(KEPT_SECONDS) + 1)
    assert list(find_rings(tmp_path / "rings")) == []


def test_a_ring_stays_while_torchrun_may_start_its_rank_again(
    tmp_path: Path, agent: Agent, clock: HandClock
) -> None:
    with subprocess.Popen(["sleep", "60"]) as torchrun:
        began = start_ticks(torchrun.pid)
        job = Job(tmp_path / "rings", "job-2", launcher=torchrun.pid, launcher_start=began)
        turn(agent, clock)
        job.end(closed=False)
        turn(agent, clock, 130)
        assert agent.tail.identities() == [], "no descriptor is kept of it"
        assert len(list(find_rings(tmp_path / "rings"))) == RANKS, (
            "they keep the name of the launch"
        )
        torchrun.kill()
        torchrun.wait(20)
        turn(agent, clock, round(KEPT_SECONDS) + 1)
    assert list(find_rings(tmp_path / "rings")) == []


def test_a_ring_of_another_node_in_a_shared_folder_is_left_to_its_agent(
    tmp_path: Path, agent: Agent, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    other_job = Job(tmp_path / "rings", "job", node="n2", boot=boot_number() + 1)
    for ring in other_job.rings:  # its process is one of the other node: no such one lives here
        ring.set_identity(ring.identity._replace(pid=2**22 - 7))
    other_job.rings[1].words[CLOSED_AT // 8] = 1
    local_job = Job(tmp_path / "rings", "here")
    turn(agent, clock)
    local_job.end()
    turn(agent, clock, 1_100)
    assert agent.tail.records_read == RANKS * 4
    assert {path.parts[-3] for path in find_rings(tmp_path / "rings")} == {"job"}
    assert agent.tail.bounds.unread[ELSEWHERE] == RANKS
    assert caplog.text.count("rings of node n2 lie in") == 1
    other_job.end()


def test_an_earlier_boot_of_this_node_is_no_other_node(
    tmp_path: Path, agent: Agent, clock: HandClock
) -> None:
    job = Job(tmp_path / "rings", "job", node=places.node_name(), boot=boot_number() + 1)
    for ring in job.rings:
        ring.set_identity(ring.identity._replace(pid=2**22 - 7))
    turn(agent, clock, 130)
    assert agent.tail.records_read == RANKS * 4, "its last facts are read"
    assert list(find_rings(tmp_path / "rings")) == []
    job.end()


def test_a_ring_that_is_written_again_is_followed_again(
    tmp_path: Path, agent: Agent, clock: HandClock
) -> None:
    job = Job(tmp_path / "rings", "paused", clock=clock.now)
    for ring in job.rings:  # of a container: this agent sees no process
        ring.set_identity(ring.identity._replace(pid=2**22 - 7, pid_namespace=7))
    turn(agent, clock, 80)
    assert agent.tail.identities() == [] and len(agent.ended_rings) == RANKS
    for ring in job.rings:
        ring.set_heartbeat(clock.now)
    job.steps(5)
    turn(agent, clock, round(KEPT_SECONDS) + 1)
    assert agent.tail.records_read == RANKS * 9
    assert len(list(find_rings(tmp_path / "rings"))) == RANKS
    job.end(closed=False)
    turn(agent, clock, 1_100)
    assert list(find_rings(tmp_path / "rings")) == [], "nobody lives for so long without a beat"


def test_a_place_that_is_taken_again_is_read_at_once(
    tmp_path: Path, agent: Agent, clock: HandClock
) -> None:
    first = Job(tmp_path / "rings", "job")
    turn(agent, clock, sent=False)
    first.end()

    def is_seen() -> bool:
        turn(agent, clock, sent=False)
        return len(agent.ended_rings) == RANKS

    until("the end of its process to be seen", is_seen)
    restarted_job = Job(tmp_path / "rings", "job")
    turn(agent, clock, sent=False)
    assert agent.tail.records_read == 2 * RANKS * 4
    restarted_job.end()
    turn(agent, clock, 130)
    assert list(find_rings(tmp_path / "rings")) == []


def test_a_copy_that_cannot_be_written_keeps_the_ring(
    tmp_path: Path, agent: Agent, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spool" / copies.FOLDER).write_text("in the way")
    job = Job(tmp_path / "rings", "job")
    turn(agent, clock)
    job.end()
    turn(agent, clock, 130)
    assert len(list(find_rings(tmp_path / "rings"))) == RANKS
    assert agent.errors.counts["ENOTDIR"] > 0
    assert caplog.text.count("cannot copy a ring") == 1, "said once while it lasts"
    (tmp_path / "spool" / copies.FOLDER).unlink()
    turn(agent, clock, 70)
    assert list(find_rings(tmp_path / "rings")) == []


def test_copies_stay_within_their_bounds(tmp_path: Path, agent: Agent, clock: HandClock) -> None:
    agent.ended_rings.copies = copies.RingCopies(tmp_path / "copies", 1 << 20, most_copies=6)
    for number in range(5):
        job = Job(tmp_path / "rings", f"job-{number}")
        turn(agent, clock)
        job.end()
        turn(agent, clock, 70)
    remaining = sorted({path.parts[-3] for path in find_rings(tmp_path / "copies")})
    assert remaining == ["job-2", "job-3", "job-4"]
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == remaining
    assert len(copies.RingCopies(tmp_path / "copies")) == 6, "a restarted agent counts them"
    small = copies.RingCopies(tmp_path / "copies", most_bytes=10)
    small.make_room()
    assert (len(small), small.size, list((tmp_path / "copies").iterdir())) == (0, 0, [])


def test_the_loop_survives_without_descriptors_and_loses_nothing(
    tmp_path: Path, agent: Agent, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(tmp_path / "rings", "job")
    turn(agent, clock)
    with without_descriptors():
        for _ in range(5):
            job.steps(2)
            turn(agent, clock, sent=False)
            agent.relay.send_once()
    # Not in each turn: a file that the process closes leaves room for the next one.
    assert agent.errors.counts["EMFILE"] > 0
    assert caplog.text.count("cannot look for rings") <= 1, "said once while it lasts"
    turn(agent, clock, 2)
    assert (agent.tail.records_read, agent.tail.overruns) == (RANKS * (4 + 10), 0)
    assert agent.spool.dropped == 0
    job.end()


def test_an_agent_that_finds_more_rings_than_it_has_descriptors_reads_all(
    tmp_path: Path, agent: Agent, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [Job(tmp_path / "rings", f"job-{number}", 8) for number in range(20)]
    for job in jobs:
        job.end()
    agent.tail.bounds = RingBounds(24)
    monkeypatch.setattr(ended, "MOST_SECONDS", 60.0)  # whatever else the machine does
    turn(agent, clock, 90)
    assert agent.tail.records_read == 20 * 8 * 4
    assert list(find_rings(tmp_path / "rings")) == []


def test_records_wait_in_the_rings_where_a_ring_or_a_probe_cannot_be_read(
    tmp_path: Path, agent: Agent, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [Job(tmp_path / "rings", name) for name in ("one", "two")]
    real = RingReader.take

    def broken(reader: RingReader, *numbers: int) -> object:
        if reader.identity.job == "two" and reader.identity.rank == 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(reader, *numbers)

    with monkeypatch.context() as patched:
        patched.setattr(RingReader, "take", broken)
        turn(agent, clock)
    assert agent.tail.records_read == RANKS * 4, "the other job is read"
    with monkeypatch.context() as patched:
        patched.setattr(agent.readings, "read", raising(errno.ENOMEM))
        turn(agent, clock)
    assert agent.tail.records_read == 2 * RANKS * 4
    assert agent.errors.counts == {"EIO": 1, "ENOMEM": 1}
    for job in jobs:
        job.end()


def raising(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_process_that_cannot_be_looked_at_has_not_ended() -> None:
    start = start_ticks(os.getpid())
    assert not has_ended(os.getpid(), start) and has_ended(os.getpid(), start + 1)
    with without_descriptors():
        assert not has_ended(os.getpid(), start + 1)
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(child.pid, 1), "a zombie"
    child.wait(20)
    assert has_ended(child.pid, 1)
