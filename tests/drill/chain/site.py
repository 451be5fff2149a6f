"""The whole chain on one machine, and questions to it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.agent.probes.nvml.scripted import build as build_driver
from tests.alerts.routes.sites import Pager
from tests.postgresql import PostgresqlServer
from tests.soak.processes import Collector
from tests.verdicts.real.links import Links

from .nodes import Node
from .pager import Notification, notifications
from .servers import DrillError, Servers, build, get_json
from .site_file import site_document
from .training import NODES, RANKS_A_NODE, Training

START_SECONDS = 240.0
_STEP_SECONDS = 0.3
_RATES = 'currency = "USD"\n[[rate]]\nfrom = 2020-01-01\ndevice_hour = 2.5\n'
T = TypeVar("T")


class Site:
    """PostgreSQL, two collectors, an agent a node, Prometheus, Alertmanager, a pager, a trainer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounts: list[Path] = []
        self._closing = contextlib.ExitStack()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        folder = self.folder
        self.pager = Pager()
        self._closing.callback(self.pager.close)
        self.links = Links(_STEP_SECONDS)
        self._closing.callback(self.links.close)
        self.database = PostgresqlServer()
        self._closing.callback(self.database.remove)
        self.database.start()
        rates = folder / "rates.toml"
        rates.write_text(_RATES)
        self.site_file = folder / "site.yaml"
        self.site_file.write_text(yaml.safe_dump(site_document(self.pager.url)))
        store = self.database.new_database()
        options = ("--rates", str(rates), "--site", str(self.site_file))
        self.collectors = [
            Collector(folder, f"collector-{number}", store, *options) for number in range(2)
        ]
        for collector in self.collectors:
            self._closing.callback(collector.end)
        self.training = Training(folder, self.links)
        (folder / "library").mkdir()
        driver = build_driver(folder / "library")
        self.nodes = [
            Node(folder, number, rings, driver, RANKS_A_NODE)
            for number, rings in enumerate(self.training.rings)
        ]
        self.servers = Servers(
            folder,
            {
                "collector": [
                    collector.url.removeprefix("http://") for collector in self.collectors
                ],
                "agent": [f"127.0.0.1:{node.port}" for node in self.nodes],
            },
        )
        self._closing.callback(self.servers.close)
        for node in self.nodes:
            self._closing.callback(node.end, signal.SIGTERM)
        self._closing.callback(self.unmount)
        self._closing.callback(self.training.kill)

    def start(self) -> None:
        """Start all but a training.

        Raises:
            DrillError: a part does not start.
        """
        build(self.site_file, self.folder, self.collectors[0].url)
        for collector in self.collectors:
            collector.start()
        for number in range(NODES):
            self.start_agent(number)
        self.servers.start()

    def start_agent(self, number: int, *options: str) -> None:
        """Start the agent of a node, with further options."""
        self.nodes[number].start(self.collectors[number % 2].url, *options)

    def unmount(self) -> None:
        """Unmount the file systems that jobs used."""
        while self.mounts:
            words = ["umount", "--lazy", str(self.mounts.pop())]
            subprocess.run(words, check=False, capture_output=True)

    def close(self) -> None:
        """End everything."""
        self._closing.close()

    def wait_step(self, job: str, step: int, attempt: int = 0) -> None:
        """Wait until a job reaches a step in an attempt, or later.

        Raises:
            DrillError: it does not get there.
        """

        def step_reached() -> bool:
            document = self.job(job)
            step_number = document.get("step")
            return (
                step_number is not None
                and step_number >= step
                and document.get("attempt", 0) >= attempt
            )

        if (
            not wait(START_SECONDS, lambda: step_reached() or self.training.has_ended())
            or not step_reached()
        ):
            raise DrillError(f"{job} did not reach step {step}; see {self.folder / job}")

    def claim_devices(self) -> None:
        """Assign the scripted devices to the ranks that run."""
        for number, node in enumerate(self.nodes):
            node.occupied_by(pid for _, pid in sorted(self.training.pids(number).items()))

    def job(self, job: str) -> dict[str, Any]:
        """Return a job's document from the API; empty if the job is unknown."""
        return self._ask(f"/v1/jobs/{job}") or {}

    def incidents(self, job: str) -> list[dict[str, Any]]:
        """Incidents of a job."""
        incidents: list[dict[str, Any]] = (self._ask("/v1/incidents", job=job) or {}).get(
            "incidents", []
        )
        return incidents

    def incident(self, number: str) -> dict[str, Any]:
        """Return one incident's document."""
        return self._ask(f"/v1/incidents/{number}") or {}

    def wait_incident(self, job: str, kind: str) -> None:
        """Wait until a job has an incident of a kind, at most as long as a start takes."""
        wait(
            START_SECONDS, lambda: any(incident["kind"] == kind for incident in self.incidents(job))
        )

    def checkpoints(self, job: str) -> list[dict[str, Any]]:
        """Return a job's checkpoints, newest first."""
        document = self._ask(f"/v1/jobs/{job}/checkpoints") or {}
        checkpoints: list[dict[str, Any]] = document.get("checkpoints", [])
        return checkpoints

    def notifications(self) -> list[Notification]:
        """Return all notifications that the pager received since the start."""
        return list(notifications(self.pager))

    def _ask(self, path: str, **query: str) -> dict[str, Any] | None:
        document: dict[str, Any] | None = get_json(f"{self.collectors[0].url}{path}", **query)
        return document


def wait(seconds: float, holds: Callable[[], T | None]) -> T | None:
    """Return the first true answer, None after `seconds` without one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if answer := holds():
            return answer
        time.sleep(0.2)
    return None
