"""Three nodes in network namespaces test each other before a job starts: the slow link's node is
named by all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.signals import places
from tests.namespaces import ip, remove, run
from tests.services import ROOT

pytestmark = pytest.mark.matrix

NODES = 3
PORT = 29461
END, BRIDGE = "sw-link", "sw-bridge"
STEPWATCH = str(Path(sys.executable).with_name("stepwatch"))


class Switch:
    """A namespace with a bridge, and one for each node, linked to it."""

    def __init__(self) -> None:
        mark = f"sw{os.getpid()}"
        self.middle, self.nodes = f"{mark}m", [f"{mark}n{number}" for number in range(NODES)]
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def slow(self, node: int, rate: str) -> None:
        """Limit a node's bandwidth."""
        run("tc", "-n", self.nodes[node], "qdisc", "add", "dev", END, "root", "tbf",
            "rate", rate, "burst", "32kb", "latency", "5s")  # fmt: skip

    def close(self) -> None:
        """Remove the namespaces; the links go with them."""
        remove((self.middle, *self.nodes))

    def _make(self) -> None:
        ip("netns", "add", self.middle)
        ip("-n", self.middle, "link", "add", "name", BRIDGE, "type", "bridge")
        ip("-n", self.middle, "link", "set", BRIDGE, "up")
        for number, node in enumerate(self.nodes):
            ip("netns", "add", node)
            ip("link", "add", "name", f"link{number}", "netns", self.middle, "type", "veth",
               "peer", "name", END, "netns", node)  # fmt: skip
            ip("-n", self.middle, "link", "set", f"link{number}", "master", BRIDGE, "up")
            ip("-n", node, "link", "set", "lo", "up")
            ip("-n", node, "address", "add", f"10.231.90.{number + 1}/24", "dev", END)
            ip("-n", node, "link", "set", END, "up")


@pytest.fixture
def switch() -> Iterator[Switch]:
    try:
        new_switch = Switch()
    except OSError as error:
        pytest.skip(f"no network namespaces here: {error}")
    yield new_switch
    new_switch.close()


def doctor(switch: Switch, node_rank: int, kernel_log: Path) -> subprocess.Popen[str]:
    words = [
        "ip", "netns", "exec", switch.nodes[node_rank], STEPWATCH, "doctor", "--json",
        "--burn", "3", "--rendezvous", f"10.231.90.1:{PORT}", "--nodes", str(NODES),
        "--node-rank", str(node_rank), "--kernel-log", str(kernel_log),
    ]  # fmt: skip
    # There is no resolver in a namespace: torch needs the name of its interface.
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": END, places.ENV_NODE: f"node-{node_rank}"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environ)


def pair_results(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, _ = process.communicate(timeout=600)
    return [result for result in json.loads(out)["checks"] if result["check"] == "pairs"]


def test_the_node_with_the_slow_link_is_named_by_all(switch: Switch, tmp_path: Path) -> None:
    (tmp_path / "kmsg").touch()
    switch.slow(2, "40mbit")
    processes = [doctor(switch, node_rank, tmp_path / "kmsg") for node_rank in range(NODES)]
    results = [pair_results(process) for process in processes]
    assert results[0] == results[1] == results[2], "all know all pairs"
    assert [result["outcome"] for result in results[0]] == ["WARN", "PASS", "PASS"], results[0]
    first = results[0][0]
    assert first["text"].startswith("node-2: ") and first["remedy"]
    assert first["problem"] == "node_problem" and first["source"]
