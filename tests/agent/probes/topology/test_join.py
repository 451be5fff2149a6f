"""From the driver's processes to why a rank failed: rank, process, device, NUMA node and card."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.keys import Tables
from stepwatch.agent.probes.topology import TopologyProbe
from stepwatch.collector.detect.finding import build_finding
from stepwatch.collector.incidents.inputs import attributed
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.processes import start_ticks
from stepwatch.signals.records import Kind, Nearness, NodeFact
from tests.agent.conftest import Rank, round_of, spooled, use_probe
from tests.agent.probes.nvml.scripted import Driver
from tests.collector.made import segment
from tests.waiting import until

from .made import Machine

BUS = 0x3B


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield children
    for process in children:
        process.kill()
        process.wait()


@pytest.fixture
def tables(
    driver: Driver,
    processes: list[subprocess.Popen[bytes]],
    tmp_path: Path,
    make_agent: Callable[..., Agent],
) -> Iterator[Tables]:
    """What an agent sends of two ranks, of the kernel's `/proc` and a made `/sys`: every process of
    this machine runs on CPUs that the made node 0 has."""
    for number, (device, process) in enumerate(zip(driver.devices, processes, strict=True)):
        device |= {"pci_bus": BUS + number, "pid": process.pid}
    driver.write()
    ranks = [
        Rank(tmp_path / "rings", number, process=(process.pid, start_ticks(process.pid)))
        for number, process in enumerate(processes)
    ]
    agent = make_agent()
    sys = Machine(tmp_path / "sys").sys
    use_probe(agent, TopologyProbe(agent.clock, agent.readings.ranks, sys=sys))
    merged: Tables = {}

    def complete() -> bool:
        for rank in ranks:
            rank.steps(1)
        round_of(agent)
        for sent in spooled(agent):
            if Kind.RANK_STATE in sent:  # the job's, not the node's own
                merged.update(sent)
        return {Kind.TOPOLOGY, Kind.NODE_FACT} <= merged.keys()

    until("the join is sent", complete)
    yield merged
    for rank in ranks:
        rank.ring.close()


def test_the_join_reaches_the_collector(
    tables: Tables, processes: list[subprocess.Popen[bytes]]
) -> None:
    rows = tables[Kind.TOPOLOGY]
    assert rows["rank"].tolist() == [0, 1]
    assert rows["port"].tolist() == [b"mlx5_0", b"mlx5_1"]
    assert rows["nearness"].tolist() == [Nearness.PIX] * 2
    facts = tables[Kind.NODE_FACT]
    (misplaced,) = facts[facts["fact"] == NodeFact.NUMA_MISPLACED]
    assert (misplaced["rank"], misplaced["subject"]) == (1, b"0000:3c:00")
    assert bytes(misplaced["text"]).decode() == (
        f"process {processes[1].pid} may run on NUMA node 0 alone; its device is on node 1"
    )
    attempt = Attempt(0)
    attempt.apply(segment(1, tables), Received(1.0, 1.0))
    down = NodeFault("node-0", NodeFact.PORT_DOWN, "mlx5_1/1", -1, -1, 1, True, "", 0.5, 1.0)
    unrelated, affected = (
        build_finding(
            kind=FindingKind.RANK_FAILED,
            cause=Cause.PROCESS_GONE,
            summary=f"rank {rank} failed",
            rank=rank,
            began_step=1,
        )
        for rank in (0, 1)
    )
    unexplained, explained = attributed(attempt, [unrelated, affected], [down])
    assert unexplained.cause is Cause.PROCESS_GONE, "its device uses the other card"
    assert explained.cause is Cause.NETWORK_FAULT and explained.summary == (
        "rank 1 failed, because a network port of its node is down "
        "(mlx5_1/1, nearest to its device 0000:3c:00: PIX)"
    )
