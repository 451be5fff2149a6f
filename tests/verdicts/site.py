"""One collector, one agent and one fork server for all runs; nothing outlives `close`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

from stepwatch.cli.processes import MARK, Processes
from stepwatch.signals import places
from stepwatch.signals.errors import StepwatchError
from tests.ports import free_port
from tests.verdicts.plan import Plan

ROOT = Path(__file__).parents[2]
_START_SECONDS = 60.0


class SiteError(StepwatchError):
    """A process of the site did not start, or died."""


class Site:
    """Real processes with the settings they ship with, sharing `folder` and `rings`."""

    def __init__(self, folder: Path, rings: Path) -> None:
        self.folder, self.rings = folder, rings
        self.url = f"http://127.0.0.1:{free_port()}"
        self._identity = uuid.uuid4().hex
        # Ranks and agent must not meet a stepwatch that is configured for somebody else.
        clean = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}
        paths = [str(ROOT), *filter(None, sys.path)]
        self._environ = {
            **clean,
            MARK: self._identity,
            places.ENV_RING_DIR: str(rings),
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._processes = Processes(self._identity, folder, self._environ)
        self._client = httpx.Client(base_url=self.url, timeout=10.0)
        self._server: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start everything and wait until it answers.

        Raises:
            SiteError: it does not.
        """
        collector = self._processes.start(
            "collector", "collector", "--store", str(self.folder / "store.db"),
            "--port", self.url.rsplit(":", 1)[1],
        )  # fmt: skip
        self._processes.start(
            "agent", "agent", "--collector", self.url, "--ring-dir", str(self.rings),
            "--spool", str(self.folder / "spool"), "--port", "0",
        )  # fmt: skip
        with open(self.folder / "server.log", "ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.verdicts.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environ,
                cwd=ROOT,
                text=True,
            )
        self._said()
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if collector.poll() is not None or time.monotonic() > deadline:
                raise SiteError(self._processes.last_line("collector"))
            time.sleep(0.1)

    def launch(self, plan: Plan) -> list[int]:
        """Start the ranks of a run; returns their process ids."""
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(plan.line())
        self._server.stdin.flush()
        pids: list[int] = json.loads(self._said())
        return pids

    def incidents(self, job: str) -> list[dict[str, Any]]:
        """Incidents of one job."""
        found: list[dict[str, Any]] = self._get("/v1/incidents", job=job)["incidents"]
        return found

    def job(self, job: str) -> dict[str, Any] | None:
        """One job, None while the collector does not know it."""
        response = self._client.get(f"/v1/jobs/{job}")
        found: dict[str, Any] | None = response.json() if response.status_code == 200 else None
        return found

    def forget(self, job: str) -> None:
        """Remove the rings of a job that is over."""
        shutil.rmtree(self.rings / job, ignore_errors=True)

    def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
        self._processes.stop_all()
        self._client.close()

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.get(path, params=query).raise_for_status().json()
        return answer

    def _answers(self) -> bool:
        try:
            return self._client.get("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def _said(self) -> str:
        assert self._server is not None
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            log = (self.folder / "server.log").read_text(errors="replace").strip()
            raise SiteError(f"the fork server ended: {log.splitlines()[-1] if log else ''}")
        return line


def kill(pids: list[int]) -> None:
    """End processes, whatever state they are in."""
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    return Path(f"/proc/{pid}").exists()
