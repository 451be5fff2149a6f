"""A node without a job: its kernel log reports a lost device, and no more later.

A real agent and a real collector; both are killed in between.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.cli.main import OK, PROBLEM, main
from stepwatch.collector.nodes.limits import LIMITS
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals import places
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.node_facts.catalogue import CATALOGUE
from stepwatch.signals.records import NodeFact
from tests.collector.process import Process
from tests.waiting import until

NODE = "gpu-07"
LASTS_SECONDS = 40.0
"""The line is so old that its fault ends after this time."""
LINE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus."


class Agent:
    """`stepwatch agent` of a node with a kernel's log of its own."""

    def __init__(self, folder: Path, collector: str) -> None:
        self.folder, self.collector = folder, collector
        self.log = folder / "kmsg"
        self.log.touch()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {**os.environ, places.ENV_RING_DIR: str(self.folder / "rings")}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        words = ["agent", "--spool", str(self.folder / "spool"), "--collector", self.collector]
        words += ["--port", "0", "--flush-seconds", "0.25", "--node", NODE]
        with open(self.folder / "agent.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stepwatch.cli", *words, "--kernel-log", str(self.log)],
                env=environ, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        """End it as a power cut does; does nothing where none runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(20)
            self._process = None

    def spool_size(self) -> int:
        """Segments on disk."""
        return len(list((self.folder / "spool").glob("*.seg")))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Process, Agent]]:
    """A collector that answers and an agent, both killed at the end."""
    collector = Process(tmp_path)
    agent = Agent(tmp_path, collector.url)
    try:
        collector.start()
        collector.wait_ready()
        agent.start()
        yield collector, agent
    finally:
        agent.kill()
        collector.end()


def node(collector: Process) -> dict[str, Any]:
    """Return the node's document from the collector; empty if the node is unknown."""
    response = httpx.get(f"{collector.url}/v1/nodes/{NODE}", timeout=60.0)
    document: dict[str, Any] = response.json() if response.status_code == 200 else {}
    return document


def xids(document: dict[str, Any], section: str = "history") -> list[dict[str, Any]]:
    """Return the XID errors among the facts: the test's machine may have facts of its own."""
    return [fact for fact in document.get(section, []) if fact["fact"] == "xid"]


@pytest.mark.long(
    "tests/agent/facts/test_book.py::test_what_was_long_before_this_agent_is_no_fact",
    "tests/collector/nodes/test_episodes.py::test_order_and_repetition_change_nothing",
    "tests/collector/nodes/test_health.py::test_a_fact_that_a_restarted_agent_does_not_find_is_over",
    "tests/collector/nodes/test_health.py::test_a_silent_agent_is_unknown_whatever_it_reported_last",
)
def test_a_fault_without_a_job_is_one_episode_whoever_is_killed(
    site: tuple[Process, Agent], capsys: pytest.CaptureFixture[str]
) -> None:
    collector, agent = site
    age = CATALOGUE[NodeFact.XID].quiet_seconds - LASTS_SECONDS
    logged_s = time.monotonic() - age
    if logged_s <= 0:
        pytest.skip(f"the machine runs for less than {age:.0f} s: no line can be so old")
    with open(agent.log, "a") as log:
        log.write(f"3,1,{round(logged_s * 1e6)},-;{LINE}\n")
    failed = until("the XID is known", lambda: node(collector) if xids(node(collector)) else None)
    assert (failed["health"], failed["action"]) == ("failed", "reboot")
    assert "XID 79" in failed["reason"] and failed["faults_7d"] == 1
    assert main(["nodes", "--collector", collector.url]) == PROBLEM
    assert "drain the node and reboot it" in capsys.readouterr().out.replace("\n ", "")

    collector.end()
    agent.kill()
    agent.start()  # it finds the line again
    until("the restarted agent spools what it finds", agent.spool_size)
    collector.start()
    collector.wait_ready()
    over = until("the XID is over", lambda: node(collector) if _is_over(node(collector)) else None)
    (episode,) = xids(over)
    assert (episode["code"], episode["times"], episode["job"]) == (79, 1, None)
    assert episode["subject"].startswith("0000:3b:00") and LINE[6:] in episode["text"]
    assert over["faults_30d"] >= 1
    if not [fact for fact in over["facts"] if fact["severity"] != "evidence"]:
        assert over["health"] in ("healthy", "unknown"), over["reason"]
        assert main(["nodes", NODE, "--json", "--collector", collector.url]) == OK
        assert json.loads(capsys.readouterr().out)["node"] == NODE

    agent.kill()
    collector.end()
    assert _later(collector.store) == "unknown"


def _is_over(document: dict[str, Any]) -> bool:
    ended = any(episode["ended"] is not None for episode in xids(document))
    return ended and not xids(document, "facts")


class _Later(SystemClock):
    """The time at which the agent has been silent for too long."""

    def wall_ns(self) -> int:
        return super().wall_ns() + round((LIMITS.silent_seconds + 1.0) * 1e9)


def _later(place: Path) -> str:
    store = Store.sqlite(place)
    try:
        state = Service(store, _Later(), reads_only=True).nodes.fleet().nodes[NODE].state
        assert "no report for" in state.reason
        return str(state.health)
    finally:
        store.close()
