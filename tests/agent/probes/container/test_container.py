"""The container probe: counters of both versions of control groups, and a real quota."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.container import WINDOW_SECONDS, ContainerProbe
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import NodeFact
from tests.agent.probes.hand_clock import HandClock
from tests.control_groups import control_group
from tests.waiting import until


class Node:
    """A process in a control group of version 2, as `/proc` and the mounted hierarchy show it."""

    def __init__(self, folder: Path, line: str = "0::/kubepods/pod-1/trainer") -> None:
        self.proc, self.root = folder / "proc", folder / "cgroup"
        self.group = self.root / "kubepods/pod-1/trainer"
        self.group.mkdir(parents=True)
        self.pids: set[int] = set()
        for pid in (41, 42):
            self.join(pid, line)
        self.clock = HandClock()
        self.probe = ContainerProbe(self.clock, lambda: self.pids, self.proc, self.root)
        self.count()

    def join(self, pid: int, line: str) -> None:
        (self.proc / str(pid)).mkdir(parents=True)
        (self.proc / str(pid) / "cgroup").write_text(f"{line}\n")
        self.pids.add(pid)

    def count(self, periods: int = 0, throttled: int = 0, high: int = 0, oom: int = 0) -> None:
        cpu = f"usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\n"
        (self.group / "cpu.stat").write_text(cpu)
        (self.group / "memory.events").write_text(f"low 0\nhigh {high}\nmax 0\noom {oom}\n")

    def facts_after(self, seconds: float = 5.0) -> list[Sighting]:
        self.clock.now += round(seconds * 1e9)
        self.probe.read()
        return self.probe.facts()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    new_node = Node(tmp_path)
    assert new_node.facts_after() == []
    return new_node


def test_a_group_that_uses_up_its_cpu_time_is_throttled(node: Node) -> None:
    node.count(periods=50, throttled=20)
    (sighting,) = node.facts_after()
    assert (sighting.fact, sighting.subject) == (
        NodeFact.CONTAINER_THROTTLED,
        "/kubepods/pod-1/trainer",
    )
    assert sighting.text == "it used up its CPU time in 20 of 50 periods" and sighting.pid == 0
    assert node.facts_after(WINDOW_SECONDS / 4) == [sighting]
    node.count(periods=100, throttled=24)
    assert node.facts_after() == [], "less than a tenth"
    node.count(periods=110, throttled=34)
    assert node.facts_after() == [], "ten periods are not a share"


def test_a_group_of_one_rank_names_it(node: Node) -> None:
    node.pids.discard(41)
    node.count(periods=50, throttled=20)
    (sighting,) = node.facts_after()
    assert sighting.pid == 42


def test_memory_at_its_limit(node: Node) -> None:
    node.count(high=9, oom=1)
    (sighting,) = node.facts_after()
    assert sighting.fact is NodeFact.CONTAINER_MEMORY
    assert sighting.text == "its memory reached its limit: high 9 times, oom 1 times"
    assert node.facts_after() == []
    node.count()
    assert node.facts_after() == [], "made anew"


def test_version_1_has_a_path_for_each_controller(tmp_path: Path) -> None:
    node = Node(tmp_path, "4:memory:/job\n1:cpu,cpuacct:/job\n0::/")
    for controller in ("memory", "cpu"):
        (node.root / controller / "job").mkdir(parents=True)
    memory, cpu = node.root / "memory/job/memory.failcnt", node.root / "cpu/job/cpu.stat"
    memory.write_text("5\n")
    cpu.write_text("nr_periods 10\nnr_throttled 0\n")
    assert node.facts_after() == []
    memory.write_text("8\n")
    cpu.write_text("nr_periods 60\nnr_throttled 30\n")
    assert [
        (sighting.fact.name, sighting.subject, sighting.text) for sighting in node.facts_after()
    ] == [
        ("CONTAINER_THROTTLED", "/job", "it used up its CPU time in 30 of 50 periods"),
        ("CONTAINER_MEMORY", "/job", "its memory reached its limit: failcnt 3 times"),
    ]


def test_a_process_that_ended_or_lies_is_left_out(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.pids |= {99}
    node.join(50, "0::/../../../etc")
    node.join(51, "nonsense")
    node.join(52, "4:memory:/none")
    for _ in range(3):
        assert node.facts_after() == []


@pytest.fixture
def quota() -> Iterator[Path]:
    """A group that may use a tenth of a CPU."""
    with control_group("cpu", "cpu.cfs_quota_us", "10000") as place:
        yield place


def test_a_real_quota_throttles(quota: Path) -> None:
    program = f"open({str(quota / 'cgroup.procs')!r}, 'w').write('0')\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program]) as busy:
        probe = ContainerProbe(SystemClock(), lambda: {busy.pid, os.getpid()})

        def throttled() -> list[Sighting]:
            probe.read()
            return [fact for fact in probe.facts() if fact.pid == busy.pid]

        (sighting,) = until("it is throttled", throttled)
        busy.kill()
    assert sighting.fact is NodeFact.CONTAINER_THROTTLED
    assert sighting.subject == f"/{quota.name}"
