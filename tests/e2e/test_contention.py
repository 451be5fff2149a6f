"""A real neighbour takes a real rank's CPU: the verdict names rank, cause and neighbour."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store

CPUS = sorted(os.sched_getaffinity(0))
WORK_SECONDS = 0.04
NEIGHBOURS = 3
DEADLINE_SECONDS = 60

pytestmark = [
    # On a machine that is busy with other things, those are the neighbours that are named.
    pytest.mark.matrix,
    pytest.mark.skipif(
        len(CPUS) < 2, reason="two CPUs are needed to have a contended and a free one"
    ),
]


@pytest.fixture
def start_process() -> Iterator[Callable[..., None]]:
    """Starts processes and ends them with the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        processes.append(subprocess.Popen(words))

    yield start
    for process in processes:
        process.kill()
    for process in processes:
        process.wait(10)


class Observers:
    """A real agent and a real collector, turned by hand."""

    def __init__(self, place: Path) -> None:
        options = AgentOptions(
            place / "rings", place / "spool", "http://127.0.0.1:9", "node-0", None
        )
        self.agent = Agent(options)
        self.store = Store.sqlite(place / "store.db")
        self.service = Service(self.store)

    def turn(self) -> list[dict[str, Any]]:
        """Read, send, evaluate; the incidents that are open."""
        self.agent.tail.discover()
        self.agent.flush()
        waiting = self.agent.spool.oldest(100)
        self.service.receive(b"".join(payload for _, payload in waiting))
        self.agent.spool.acknowledge([sequence for sequence, _ in waiting])
        self.service.evaluate()
        return self.store.incidents.newest("contended", "open")

    def wait_for_incident(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """The first open incident that is wanted; None if there is none before the deadline."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            for incident in self.turn():
                if wanted(incident):
                    return incident
            time.sleep(1.0)
        return None

    def step(self) -> int:
        """Newest step of the job."""
        entry = self.service.job("contended")
        return 0 if entry is None else entry[0].current.steps.history.complete_until(2)

    def close(self) -> None:
        """Close agent and store."""
        self.agent.close()
        self.store.close()


@pytest.fixture
def observers(tmp_path: Path) -> Iterator[Observers]:
    new_observers = Observers(tmp_path)
    yield new_observers
    new_observers.close()


def test_the_neighbour_on_a_ranks_cpu_is_named(
    tmp_path: Path, start_process: Callable[..., None], observers: Observers
) -> None:
    script = str(Path(__file__).parent / "scripts" / "spinning_rank.py")
    for rank in range(2):
        cpu = str(CPUS[rank])
        words = [script, str(tmp_path / "rings"), str(rank), "2", cpu, str(WORK_SECONDS)]
        start_process(sys.executable, *words)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while observers.step() < 40 and time.monotonic() < deadline:
        observers.turn()
        time.sleep(1.0)
    assert observers.step() >= 40, "the job trains"
    shell = shutil.which("sh")
    assert shell is not None
    (tmp_path / "noisy-backup").symlink_to(shell)
    noisy = [str(tmp_path / "noisy-backup"), "-c", "while :; do :; done"]
    for _ in range(NEIGHBOURS):
        start_process("taskset", "-c", str(CPUS[1]), *noisy)
    straggler = observers.wait_for_incident(
        lambda incident: incident["rank"] == 1 and "noisy-backup" in incident["summary"]
    )
    assert straggler is not None, [(i["cause"], i["summary"]) for i in observers.turn()]
    assert (straggler["kind"], straggler["phase"], straggler["cause"]) == (
        "straggler", "forward", "cpu-contention",
    )  # fmt: skip
    assert any(
        row["name"].startswith("noisy neighbour noisy-backup") for row in straggler["evidence"]
    )
