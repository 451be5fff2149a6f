"""Real runs slowed by a quota of CPU time and a port that flaps: that is why."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.probes.fabric.made import Cards
from tests.control_groups import control_group
from tests.e2e.two_ranks import Nodes, nodes
from tests.verdicts.real.environ import ENV_BUSY, ENV_NODE_RINGS
from tests.verdicts.real.links import Links
from tests.waiting import until

__all__ = ["nodes"]

pytest.importorskip("torch", reason="the ranks need torch")
pytestmark = pytest.mark.long(
    "tests/agent/probes/container/test_container.py::test_a_real_quota_throttles",
    "tests/collector/incidents/test_node_causes.py::test_who_and_what_explains",
)

UNSHARE = shutil.which("unshare")
STEP_SECONDS = 0.1


@pytest.fixture
def cpu_group() -> Iterator[Path]:
    with control_group("cpu", "cpu.cfs_quota_us", "-1") as group:
        yield group


def test_a_quota_of_cpu_time_is_why_a_rank_is_slow(cpu_group: Path, nodes: Nodes) -> None:
    nodes.train("quota", {ENV_BUSY: "0.7"}, cpu_group)
    assert nodes.incidents("quota") == []
    (cpu_group / "cpu.cfs_quota_us").write_text("25000")
    slow = nodes.incident_with_cause("quota", "container-limit")
    assert (slow["kind"], slow["rank"]) == ("straggler", 1)
    assert "its container gets less CPU time than it asks for" in slow["summary"]
    nodes.end()


class Flapping:
    """A second node, whose agent sees simulated cards, and a link that fails together with a
    port."""

    def __init__(self, nodes: Nodes, links: Links) -> None:
        self.links = links
        self.cards = Cards(nodes.folder / "sys")
        self.rings = nodes.folder / "rings-1"
        self.rings.mkdir()
        self.downs = 3
        agent = [
            sys.executable, "-m", "stepwatch.cli", "agent", "--collector", nodes.url, "--node",
            "node-1", "--ring-dir", str(self.rings), "--spool", str(nodes.folder / "spool-1"),
            "--port", "0",
        ]  # fmt: skip
        script = 'mount --bind "$0" /sys/class && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, str(self.cards.sys / "class"), *agent]
        with open(nodes.folder / "agent-1.log", "wb") as log:
            nodes.helpers.append(subprocess.Popen(words, env=nodes.environ, stdout=log, stderr=log))

    def down(self) -> None:
        """Take the link down, and let the port report it."""
        self.downs += 1
        self.links.cut()
        self.cards.set("mlx5_1", state="1: DOWN")
        self.cards.count("mlx5_1", link_downed=self.downs)

    def up(self) -> None:
        """It is there again."""
        self.links.mend()
        self.cards.set("mlx5_1", state="4: ACTIVE")


@pytest.fixture
def flapping(nodes: Nodes) -> Iterator[Flapping]:
    if UNSHARE is None:
        pytest.skip("unshare is not installed")
    try:
        links = Links(STEP_SECONDS)
    except OSError as error:
        pytest.skip(f"no network namespaces can be made here: {error}")
    try:
        yield Flapping(nodes, links)
    finally:
        links.close()


@pytest.mark.matrix  # a transfer that is slow in one of forty steps is certain after two minutes
def test_a_port_that_flaps_is_why_collectives_are_slow(nodes: Nodes, flapping: Flapping) -> None:
    rings = f"{nodes.rings}:{flapping.rings}"
    nodes.train("flaps", {**flapping.links.environ, ENV_NODE_RINGS: rings})
    assert nodes.incidents("flaps") == []
    ended = threading.Event()

    def flap() -> None:
        while not ended.wait(4.0):
            flapping.down()
            ended.wait(2.0)
            flapping.up()

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        slow = nodes.incident_with_cause("flaps", "network-fault")
        assert slow["node"] == "node-1"
        assert "a network port of" in slow["summary"] and "(mlx5_1/1)" in slow["summary"]
        node_incident = until("the node's own incident", lambda: nodes.node_incident("flaps"))
        assert node_incident["node"] == "node-1" and node_incident["subject"].startswith(
            "node-1/port-"
        )
    finally:
        ended.set()
        thread.join()
