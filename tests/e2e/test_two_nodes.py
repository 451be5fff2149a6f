"""Two agents in network namespaces of their own: the link is cut, throttled, and one agent killed.

No record is lost or doubled, and a node's missing telemetry opens and resolves an incident.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.signals import places
from tests.agent.conftest import Rank, stored_steps
from tests.namespaces import ip, remove, run
from tests.services import ROOT
from tests.waiting import until

pytestmark = pytest.mark.matrix

PORT = 18480
END = "sw-link"
"""Name of a node's end of its link."""
STEPWATCH = str(Path(sys.executable).with_name("stepwatch"))
CUT_SECONDS = 60.0
STEP_SECONDS = 0.25


class Network:
    """A namespace for the collector, one for each agent, and a link to each."""

    def __init__(self) -> None:
        mark = f"sw{os.getpid()}"
        self.middle, self.nodes = f"{mark}c", [f"{mark}a", f"{mark}b"]
        self.urls = [f"http://10.231.{78 + number}.1:{PORT}" for number in range(2)]
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        ip("netns", "add", self.middle)
        ip("-n", self.middle, "link", "set", "lo", "up")
        for number, node in enumerate(self.nodes):
            ip("netns", "add", node)
            ip("-n", node, "link", "set", "lo", "up")
            ip("link", "add", "name", f"link{number}", "netns", self.middle, "type", "veth",
               "peer", "name", END, "netns", node)  # fmt: skip
            for name, interface, last in ((self.middle, f"link{number}", 1), (node, END, 2)):
                address = f"10.231.{78 + number}.{last}/24"
                ip("-n", name, "address", "add", address, "dev", interface)
                ip("-n", name, "link", "set", interface, "up")

    def cut(self, node: int) -> None:
        """Nothing comes through any more."""
        ip("-n", self.nodes[node], "link", "set", END, "down")

    def mend(self, node: int) -> None:
        """It does again."""
        ip("-n", self.nodes[node], "link", "set", END, "up")

    def throttle(self, node: int, rate: str) -> None:
        """Less comes through than is sent."""
        run("tc", "-n", self.nodes[node], "qdisc", "add", "dev", END, "root", "tbf",
            "rate", rate, "burst", "4kb", "latency", "5s")  # fmt: skip

    def unthrottle(self, node: int) -> None:
        """All comes through again."""
        run("tc", "-n", self.nodes[node], "qdisc", "delete", "dev", END, "root")

    def close(self) -> None:
        """Remove the namespaces; the links go with them."""
        remove((self.middle, *self.nodes))


class Site:
    """A collector, two agents, and two ranks a node that make a step every quarter of a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = Network()
        self.token = folder / "token"
        self.token.write_text("token-of-the-test\n")
        self.token.chmod(0o600)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ranks = [Rank(folder / f"rings-{rank // 2}", rank, capacity=4096) for rank in range(4)]
        self.steps = 0
        self._training_over = threading.Event()
        self._training = threading.Thread(target=self._train)

    def start(self) -> None:
        """Start all processes."""
        self._start_verb(
            self.network.middle, "collector", "collector", "--store", str(self.store),
            "--host", "0.0.0.0", "--port", str(PORT), "--token-file", str(self.token),
        )  # fmt: skip
        until("the collector answers", lambda: self.incidents() is not None)
        for number in range(2):
            self.start_agent(number)
        self._training.start()

    def start_agent(self, number: int) -> None:
        """Start an agent, or restart it on its spool."""
        self._start_verb(
            self.network.nodes[number], f"agent-{number}", "agent", "--collector",
            self.network.urls[number], "--ring-dir", str(self.folder / f"rings-{number}"), "--node",
            f"node-{number}", "--port", "0", "--spool", str(self.folder / f"spool-{number}"),
            "--token-file", str(self.token),
        )  # fmt: skip

    def kill_agent(self, number: int) -> None:
        """Kill an agent as a crash would."""
        self._processes[f"agent-{number}"].kill()
        self._processes[f"agent-{number}"].wait()

    @property
    def store(self) -> Path:
        """The collector's store."""
        return self.folder / "store.db"

    def incidents(self) -> list[dict[str, Any]] | None:
        """Return the job's incidents from the command; None while the collector does not answer."""
        completed = subprocess.run(
            [
                "ip", "netns", "exec", self.network.middle, STEPWATCH, "incidents", "--json",
                "--collector", f"http://127.0.0.1:{PORT}", "--token-file", str(self.token),
            ],
            capture_output=True, text=True, env=self._environ(), check=False,
        )  # fmt: skip
        try:
            answer = json.loads(completed.stdout)
        except ValueError:
            return None
        listed: list[dict[str, Any]] = answer["incidents"] if isinstance(answer, dict) else answer
        return listed

    def telemetry_lost(self, node: str, state: str) -> bool:
        """Return whether an incident about this node's missing telemetry has that state."""
        return any(
            incident["kind"] == "telemetry-lost"
            and incident["node"] == node
            and incident["state"] == state
            for incident in self.incidents() or ()
        )

    def finish(self) -> int:
        """End the training; return the number of steps per rank."""
        self._training_over.set()
        self._training.join()
        return self.steps

    def close(self) -> None:
        """End all processes."""
        if self._training.is_alive():
            self.finish()
        for process in self._processes.values():
            process.kill()
            process.wait()
        for rank in self.ranks:
            rank.ring.close()
        self.network.close()

    def _train(self) -> None:
        while not self._training_over.wait(STEP_SECONDS):
            for rank in self.ranks:
                rank.steps(1)
            self.steps += 1

    def _environ(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}
        paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        return {**clean, "PYTHONPATH": paths, places.ENV_RING_DIR: str(self.folder / "none")}

    def _start_verb(self, space: str, name: str, *words: str) -> None:
        command = [STEPWATCH, *words]
        with open(self.folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                ["ip", "netns", "exec", space, *command],
                stdout=log,
                stderr=log,
                env=self._environ(),
            )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    try:
        new_site = Site(tmp_path)
    except OSError as error:
        pytest.skip(f"no network namespaces can be made here: {error}")
    try:
        new_site.start()
        yield new_site
    finally:
        new_site.close()


def test_a_cut_a_throttled_link_and_a_killed_agent_lose_and_double_nothing(site: Site) -> None:
    until("both nodes send", lambda: site.steps > 40)
    site.network.cut(1)
    begins = time.monotonic()
    until("the cut is noticed", lambda: site.telemetry_lost("node-1", "open"), every=1.0)
    time.sleep(max(0.0, CUT_SECONDS - (time.monotonic() - begins)))
    site.network.mend(1)
    until("it is over", lambda: site.telemetry_lost("node-1", "resolved"), every=1.0)

    site.network.throttle(1, "16kbit")
    time.sleep(15.0)
    site.network.unthrottle(1)

    site.kill_agent(0)
    until("the killed agent is noticed", lambda: site.telemetry_lost("node-0", "open"), every=1.0)
    site.start_agent(0)
    until("it sends again", lambda: site.telemetry_lost("node-0", "resolved"), every=1.0)

    steps_made = site.finish()
    expected = {(rank, step): 1 for rank in range(4) for step in range(1, steps_made + 1)}
    until("every step is stored, and none twice", lambda: stored_steps(site.store) == expected)
