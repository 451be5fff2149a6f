"""Real processes on free ports, ended whatever the test does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.cli.processes import MARK, marked_processes
from stepwatch.collector.store import Store
from stepwatch.signals import places, wire
from stepwatch.signals.records import Kind
from tests.ports import free_port
from tests.waiting import until

JOB = "e2e"


class Site:
    """A collector, an agent and a trainer that share one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rings = folder / "rings"
        self.store_path = folder / "store.db"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.identity = uuid.uuid4().hex
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start `stepwatch words...` in a session of its own."""
        environment = {**os.environ, MARK: self.identity, places.ENV_RING_DIR: str(self.rings)}
        with open(self.folder / f"{words[0]}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "stepwatch.cli", *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environment, **environ},
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def start_collector(self) -> subprocess.Popen[bytes]:
        """Start the collector and wait until it answers."""
        words = ["collector", "--store", str(self.store_path), "--port", str(self.port)]
        process = self.start(*words)
        until("the collector to answer", self.answers)
        return process

    def start_agent(self) -> subprocess.Popen[bytes]:
        """Start the agent."""
        return self.start(
            "agent", "--collector", self.url, "--ring-dir", str(self.rings),
            "--spool", str(self.folder / "spool"), "--port", "0", "--flush-seconds", "0.5",
        )  # fmt: skip

    def start_trainer(self, steps: int, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start the reference trainer on four ranks."""
        run_dir = str(self.folder / "run")
        return self.start(
            "train", "--job", JOB, "--steps", str(steps), "--run-dir", run_dir, *words, **environ
        )

    def answers(self) -> bool:
        """Return whether the collector answers."""
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2.0).status_code == 200
        except httpx.HTTPError:
            return False

    def job(self) -> dict[str, Any] | None:
        """Return the job's document, None while the collector does not know it."""
        try:
            response = httpx.get(f"{self.url}/v1/jobs/{JOB}", timeout=5.0)
        except httpx.HTTPError:
            return None
        document: dict[str, Any] | None = response.json() if response.status_code == 200 else None
        return document

    def has_reached(self, step: int) -> Callable[[], bool]:
        """A condition: every rank's step `step` has been received."""

        def holds() -> bool:
            job = self.job()
            return job is not None and job["step"] is not None and job["step"] >= step

        return holds

    def stored_steps(self) -> list[tuple[int, int]]:
        """(rank, step) of every STEP row at rest, in the order stored."""
        store = Store.sqlite(self.store_path)
        steps: list[tuple[int, int]] = []
        for payload, *_ in store.segments(JOB):
            rows = wire.decode(payload).tables.get(Kind.STEP, ())
            steps.extend((int(row["rank"]), int(row["step"])) for row in rows)
        store.close()
        return steps

    def close(self) -> None:
        """End all processes."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in marked_processes(self.identity):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site of the test's own."""
    new_site = Site(tmp_path)
    yield new_site
    new_site.close()
