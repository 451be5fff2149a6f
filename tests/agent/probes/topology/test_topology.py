"""The probe: rows of what is near, and ranks that run or have their memory far from a device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from stepwatch.agent.probes.probe import RankProcesses
from stepwatch.agent.probes.topology import TopologyProbe, users_of
from stepwatch.agent.probes.topology.memory import SAMPLES, located, memory_by_node
from stepwatch.agent.probes.topology.numa import cpu_list, read_nodes
from stepwatch.signals.records import Nearness
from tests.agent.probes import rows_of
from tests.agent.probes.hand_clock import HandClock

from .made import DEVICES, Machine, Process

PIDS = (41, 42)


class Node:
    """A machine with a rank on each device; `pages` is on which node each rank's memory lies."""

    def __init__(self, folder: Path) -> None:
        self.machine = Machine(folder / "sys")
        self.clock, self.ranks = HandClock(), RankProcesses()
        self.ranks.pids = frozenset(PIDS)
        self.ranks.devices = {pid: (DEVICES[index],) for index, pid in enumerate(PIDS)}
        self.processes = [
            Process(folder / "proc", pid, cpus, 8.0)
            for pid, cpus in zip(PIDS, ("0-7", "8-15"), strict=True)
        ]
        self.pages = {41: [0], 42: [1]}
        self.asked = 0
        self.probe = TopologyProbe(
            self.clock, self.ranks, folder / "proc", self.machine.sys, self.locate
        )

    def locate(self, pid: int, addresses: Sequence[int]) -> list[int]:
        self.asked += 1
        nodes = self.pages[pid]
        return [nodes[index % len(nodes)] for index in range(len(addresses))]

    def rows(self, seconds: float = 1.0) -> list[tuple[object, ...]]:
        self.clock.now += round(seconds * 1e9)
        rows = rows_of(self.probe)
        names = ("address", "nearness", "port", "interface", "card")
        return [tuple(row[name].item() for name in names) for row in rows]

    def facts_after(self, seconds: float = 61.0) -> list[tuple[str, int, str]]:
        self.rows(seconds)
        return [(fact.subject, fact.pid, fact.text) for fact in self.probe.facts()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    new_node = Node(tmp_path)
    assert new_node.facts_after() == [], "everything is where it belongs"
    return new_node


def test_a_row_for_each_device_and_the_cards_nearest_to_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.rows() == [
        (b"0000:3b:00", Nearness.PIX, b"mlx5_0", b"ib0", b"0000:5e:00.0"),
        (b"0000:3c:00", Nearness.PIX, b"mlx5_1", b"ib1", b"0000:5f:00.0"),
    ]
    assert node.probe.owners() == [frozenset({41}), frozenset({42})]
    assert node.rows() == [] and node.probe.owners() == [], "nothing changed"
    assert len(node.rows(30.0)) == 2, "said again, for whoever missed it"
    node.ranks.pids = frozenset({41})
    assert len(node.rows()) == 1, "one rank ended"
    node.ranks.devices = {}
    assert node.rows() == [], "no process is known on any device"


def test_a_rank_that_may_run_on_the_other_node_alone(node: Node) -> None:
    node.processes[1].runs_on("0-3")
    assert node.facts_after(1.0) == [
        (
            "0000:3c:00",
            42,
            "process 42 may run on NUMA node 0 alone; its device is on node 1",
        )
    ]
    node.processes[1].runs_on("0-15")
    assert node.facts_after(1.0) == [], "it may run near its device: the kernel chooses"


def test_memory_most_of_which_is_on_the_other_node(node: Node) -> None:
    node.pages[41] = [1, 1, 1, 0]
    assert node.facts_after(1.0) == [], "it is looked at once a minute"
    assert node.facts_after() == [
        (
            "0000:3b:00",
            41,
            "process 41 has 75% of its 8.0 GiB on node 1; its device is on node 0",
        )
    ]
    node.pages[41] = [0, 0, 1]
    assert node.facts_after() == []
    node.pages[41] = [1]
    node.processes[0].runs_on("0-7", 0.5)
    assert node.facts_after() == [], "half a gibibyte is interpreter and libraries"


def test_pages_that_are_not_there_say_nothing(node: Node) -> None:
    node.pages[41] = [1, *[-2] * 63]
    assert node.facts_after() == [], "sixteen pages of 1024 are too few"
    node.pages[41] = [1, -2]
    assert len(node.facts_after()) == 1


def test_parts_of_one_socket_are_near_enough(node: Node) -> None:
    node.processes[1].runs_on("0-3")
    node.machine.node(0, distance="10 12")
    assert node.facts_after() == []
    node.machine.node(0, distance="damaged")
    assert len(node.facts_after()) == 1, "what the firmware does not say is as far as usual"


def test_where_the_node_of_the_device_is_not_known_nothing_is_said(node: Node) -> None:
    node.processes[1].runs_on("0-3")
    (node.machine.sys / "bus/pci/devices/0000:3c:00.0/numa_node").write_text("-1\n")
    assert node.facts_after() == []


def test_memory_of_a_device_is_no_node_of_ranks(node: Node) -> None:
    node.machine.node(0, distance="10 21 80")
    node.machine.node(1, distance="21 10 80")
    node.machine.node(2, cpulist="", distance="80 80 10")
    node.pages[41] = [2]
    assert node.facts_after() == [], "pages that lie on the device itself"


def test_whose_device_it_is() -> None:
    everybody: dict[int, tuple[str, ...]] = {41: DEVICES[:1], 42: DEVICES}
    assert users_of(everybody, frozenset(PIDS)) == {
        DEVICES[0]: frozenset({41}),
        DEVICES[1]: frozenset({42}),
    }, "rank 1 has a context on the device of rank 0, too"
    shared_devices = {41: DEVICES, 42: DEVICES}
    assert users_of(shared_devices, frozenset(PIDS)) == {}
    assert users_of({41: DEVICES[:1]}, frozenset()) == {}, "it is no rank"


def test_lists_of_cpus() -> None:
    assert cpu_list("0-3,8, 10-11") == {0, 1, 2, 3, 8, 10, 11}
    assert cpu_list("") == cpu_list("x-3,-,5-") - {5} == set()
    assert max(cpu_list("0-99999")) == 8192


def test_a_machine_without_a_bus_has_no_source(tmp_path: Path) -> None:
    probe = TopologyProbe(HandClock(), RankProcesses(), tmp_path, tmp_path)
    assert not probe.supported()
    assert read_nodes(tmp_path).cpus == {}


_CHILD = """
block = bytearray(64 << 20)
block[::4096] = bytes([1]) * len(block[::4096])
print(flush=True)
input()
"""


def test_the_pages_of_a_process() -> None:
    """The kernel's own answer: all of it lies on nodes that there are."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            located(child.pid, [0])
        except OSError:
            pytest.skip("this kernel, or its sandbox, does not say where pages are")
        memory_bytes = memory_by_node(child.pid, Path("/proc"))
        child.kill()
    nodes = read_nodes(Path("/sys"))
    assert memory_bytes is not None
    assert set(memory_bytes) <= set(nodes.cpus or {0}) and 64 <= memory_bytes.total() <= SAMPLES


def test_a_process_that_is_gone_has_no_memory(tmp_path: Path) -> None:
    assert memory_by_node(2**22 + 1, Path("/proc")) is None
