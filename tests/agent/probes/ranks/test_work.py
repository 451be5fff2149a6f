"""What real processes do while their rank does not move, as the agent sees it from outside."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.ranks import RanksProbe
from stepwatch.agent.probes.ranks.work import Signs, WorkReader
from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.hooks.core import Timeline
from stepwatch.hooks.guard import Guard
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import NANOSECONDS, SystemClock
from stepwatch.signals.records import Phase
from tests.agent.conftest import Rank
from tests.waiting import until

PROC = Path("/proc")
SLEEPS = "import time; time.sleep(600)"
SPINS = "while True: pass"
PARENT = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {!r}]); time.sleep(600)"
)
READS = """
while True:
    open('/proc/self/maps').read()
"""
SERVES = """
import socket, sys
peers = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(20)]
while True:
    for peer in peers:
        peer.recv(100)
"""
RECEIVES = """
import socket, sys
with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as peer:
    while peer.recv(1 << 16):
        pass
"""


@contextmanager
def process(program: str, *words: str) -> Iterator[int]:
    """A process of its own group; ends with its children."""
    command = [sys.executable, "-c", program, *words]
    started = subprocess.Popen(command, start_new_session=True)
    try:
        yield started.pid
    finally:
        os.killpg(started.pid, 9)
        started.wait()


def grown(
    pid: int, enough: Callable[[Signs], bool], feed: Callable[[], object] = lambda: 0
) -> Signs:
    """Read until the signs of `pid` have grown enough."""
    reader, polls = WorkReader(PROC, KernelFiles()), iter(range(1, 10_000))

    def signs() -> Signs | None:
        feed()
        work_signs = reader.read(frozenset({pid}), next(polls) * 5 * NANOSECONDS)[pid]
        return work_signs if enough(work_signs) else None

    return until("signs of work", signs)


def test_a_process_that_sleeps_shows_none() -> None:
    with process(SLEEPS) as pid:
        reader = WorkReader(PROC, KernelFiles())
        for poll in range(3):
            signs = reader.read(frozenset({pid}), poll * 5 * NANOSECONDS)[pid]
        assert signs.children_cpu_seconds == 0.0
        assert signs.tcp_bytes == 0.0


def test_cpu_time_of_children_counts_and_not_its_own() -> None:
    with process(PARENT.format(SPINS)) as pid:
        assert grown(pid, lambda signs: signs.children_cpu_seconds > 0.3).tcp_bytes == 0.0
    with process(SPINS) as pid:
        reader = WorkReader(PROC, KernelFiles())
        signs = [
            reader.read(frozenset({pid}), number * 5 * NANOSECONDS)[pid] for number in range(5)
        ]
        assert signs[-1].children_cpu_seconds == 0.0


@pytest.mark.parametrize("program", [READS, PARENT.format(READS)], ids=["itself", "its child"])
def test_bytes_that_are_read_count(program: str) -> None:
    with process(program) as pid:
        grown(pid, lambda signs: signs.file_bytes > 1e6)


def test_bytes_that_a_connection_receives_count_until_it_is_closed() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        process(RECEIVES, str(server.getsockname()[1])) as pid,
        server.accept()[0] as peer,
    ):
        grown(pid, lambda signs: signs.tcp_bytes > 1e6, lambda: peer.send(bytes(1 << 16)))


def test_a_little_on_each_of_many_connections_is_what_one_of_them_carries() -> None:
    """The host of a store answers each rank once a second: a hundred bytes on each connection."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=20) as server,
        process(SERVES, str(server.getsockname()[1])) as pid,
        ExitStack() as stack,
    ):
        peers = [stack.enter_context(server.accept()[0]) for _ in range(20)]
        reader = WorkReader(PROC, KernelFiles())
        for poll in range(4):
            signs = reader.read(frozenset({pid}), poll * 5 * NANOSECONDS)[pid]
            for peer in peers:
                peer.sendall(bytes(100))
        assert 100.0 <= signs.tcp_bytes <= 300.0


class Later:
    """Clocks of three seconds from now."""

    def monotonic_ns(self) -> int:
        return SystemClock().monotonic_ns() + 3 * NANOSECONDS

    def wall_ns(self) -> int:
        return SystemClock().wall_ns() + 3 * NANOSECONDS


@contextmanager
def standing(root: Path, process: tuple[int, int] | None = None) -> Iterator[WatchedRank]:
    """A rank that has entered a phase."""
    rank = Rank(root, process=process)
    Timeline(rank.ring, SystemClock().monotonic_ns, Guard().misuse).enter(Phase.FORWARD)
    yield WatchedRank(RingReader(rank.ring.path), overruns=0, torn=0)
    rank.ring.close()


def test_only_ranks_that_do_not_move_are_read(tmp_path: Path) -> None:
    with standing(tmp_path) as watched:
        now = RanksProbe(SystemClock(), lambda: [watched]).read()[0]
        later = RanksProbe(Later(), lambda: [watched]).read()[0]
    assert all(math.isnan(now[name]) for name in Signs._fields)
    assert later["children_cpu_seconds"] == 0.0 and later["file_bytes"] == 0.0


def test_a_process_that_has_the_number_of_a_rank_elsewhere_is_not_read(tmp_path: Path) -> None:
    with standing(tmp_path, process=(os.getpid(), 1)) as watched:
        row = RanksProbe(Later(), lambda: [watched]).read()[0]
    assert all(math.isnan(row[name]) for name in Signs._fields)


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    signs = WorkReader(tmp_path, KernelFiles()).read(frozenset({7}), 0)[7]
    assert all(map(math.isnan, signs))
