"""Ranks that are blocked or have ended: real processes, and a hand that moves the clock."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.agent.probes.host.rank_states import RankStates
from tests.agent.probes.hand_clock import HandClock
from tests.agent.probes.nvml.scripted import COMPILER
from tests.waiting import until

BLOCKED = "#include <unistd.h>\nint main(void) { if (vfork() == 0) { pause(); _exit(0); } }\n"
"""The kernel lets a parent wait for the child of vfork(2) without interruption."""
PROC = Path("/proc")


class Followed:
    """Ranks of these processes."""

    def __init__(self, *pids: int) -> None:
        self.pids, self.clock = set(pids), HandClock()
        self.states = RankStates(lambda: self.pids, PROC)

    def facts_after(self, seconds: float = 0.0) -> list[tuple[str, str, str]]:
        self.clock.now += round(seconds * 1e9)
        sightings = self.states.find(self.clock.now)
        return [(sighting.fact.name, sighting.subject, sighting.text) for sighting in sightings]


def state(pid: int) -> str:
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]


def child_of(pid: int) -> int:
    children = (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    return int(children[0]) if children else 0


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A process that the kernel blocks, and the one that it waits for."""
    if COMPILER is None:
        pytest.skip("no C compiler: nothing that the kernel blocks can be built")
    source = tmp_path / "blocked.c"
    source.write_text(BLOCKED)
    subprocess.run([COMPILER, str(source), "-o", str(tmp_path / "blocked")], check=True)
    process = subprocess.Popen([tmp_path / "blocked"])
    until("it is blocked", lambda: state(process.pid) == "D" and child_of(process.pid))
    child = child_of(process.pid)
    yield process.pid, child
    os.kill(child, 9)
    process.wait()


def test_a_rank_that_the_kernel_blocks(blocked: tuple[int, int]) -> None:
    pid, _ = blocked
    ranks = Followed(pid, os.getpid())
    assert ranks.facts_after() == ranks.facts_after(9.0) == [], "not yet for long"
    ((fact, subject, text),) = ranks.facts_after(25.0)
    assert (fact, subject) == ("RANK_BLOCKED", f"process {pid}")
    assert text.startswith("blocked for 34 s") and "None" not in text
    ranks.pids.clear()
    assert ranks.facts_after(1.0) == [], "it is no rank"


def test_one_that_runs_now_and_then_is_not_blocked(tmp_path: Path) -> None:
    folder = tmp_path / "41"
    folder.mkdir()
    clock = HandClock()
    states = RankStates(lambda: {41}, tmp_path)

    def texts_after(switches: int) -> list[str]:
        (folder / "stat").write_text(f"41 (a) b) D {'0 ' * 18}99 0\n")
        (folder / "status").write_text(f"voluntary_ctxt_switches:\t{switches}\n")
        clock.now += 10**10
        return [sighting.text for sighting in states.find(clock.now)]

    assert texts_after(1) == texts_after(2) == texts_after(3) == [], (
        "it waits for a disk again and again"
    )
    assert texts_after(3) == ["blocked for 10 s"]
    (folder / "wchan").write_text("nfs_wait_bit_killable")
    assert texts_after(3) == ["blocked for 20 s in nfs_wait_bit_killable"]
    (folder / "status").write_text("damaged")
    (folder / "stat").write_text("damaged")
    assert list(states.find(clock.now)) == []


def test_a_rank_that_ended_and_that_nobody_waits_for() -> None:
    process = subprocess.Popen(["true"])
    ranks = Followed(process.pid)
    until("it has ended", lambda: state(process.pid) == "Z")
    assert ranks.facts_after() == []
    ranks.pids.clear()
    assert ranks.facts_after(31.0) == [
        (
            "RANK_ZOMBIE",
            f"process {process.pid}",
            "ended 31 s ago or more; its parent does not wait for it",
        )
    ], "whoever else forgets it"
    process.wait()
    assert ranks.facts_after(1.0) == []
