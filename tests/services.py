"""A collector and an agent as shipped, for tests that observe real runs through them."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from stepwatch.cli.processes import MARK, Processes
from stepwatch.signals import places
from stepwatch.signals.errors import StepwatchError
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
_START_SECONDS = 60.0


class ServiceError(StepwatchError):
    """A process did not start, or died."""


class Services:
    """Real processes with the shipped settings, sharing `folder` and `rings`.

    `paths` is the PYTHONPATH of all processes in `environ`, `options` are the collector's, and
    `agent_options` the agent's; the argument `environ` is added to their environment.
    """

    def __init__(
        self,
        folder: Path,
        rings: Path,
        paths: list[str],
        options: Sequence[str] = (),
        agent_options: Sequence[str] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder, self.rings = folder, rings
        self._options, self._agent_options = options, agent_options
        self.url = f"http://127.0.0.1:{free_port()}"
        identity = uuid.uuid4().hex
        # Ranks and agent must not use the stepwatch configuration of the user.
        clean = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}
        self.environ = {
            **clean,
            MARK: identity,
            places.ENV_RING_DIR: str(rings),
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            **environ,
        }
        self._processes = Processes(identity, folder, self.environ)
        self._client = httpx.Client(base_url=self.url, timeout=60.0)

    def start(self) -> None:
        """Start both and wait until the collector answers.

        Raises:
            ServiceError: it does not answer.
        """
        collector = self._processes.start(
            "collector", "collector", "--store", str(self.store),
            "--port", self.url.rsplit(":", 1)[1], *self._options,
        )  # fmt: skip
        self._start_agent()
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if collector.poll() is not None or time.monotonic() > deadline:
                raise ServiceError(self._processes.last_line("collector"))
            time.sleep(0.1)

    def _start_agent(self) -> None:
        """Start the agent of this machine."""
        self._processes.start(
            "agent", "agent", "--collector", self.url, "--ring-dir", str(self.rings),
            "--spool", str(self.folder / "spool"), "--port", "0", *self._agent_options,
        )  # fmt: skip

    @property
    def store(self) -> Path:
        """File of the collector's store."""
        return self.folder / "store.db"

    def incidents(self, job: str) -> list[dict[str, Any]]:
        """Incidents of one job."""
        incidents: list[dict[str, Any]] = self._get("/v1/incidents", job=job)["incidents"]
        return incidents

    def job(self, job: str) -> dict[str, Any] | None:
        """Return one job's document, None while the collector does not know it."""
        response = self._client.get(f"/v1/jobs/{job}")
        document: dict[str, Any] | None = response.json() if response.status_code == 200 else None
        return document

    def checkpoints(self, job: str) -> list[dict[str, Any]]:
        """Return a job's checkpoints, the newest step first; none while the job is unknown."""
        if self.job(job) is None:
            return []
        checkpoints: list[dict[str, Any]] = self._get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]
        return checkpoints

    def metrics(self, job: str) -> list[dict[str, Any]]:
        """Return a job's metrics with their curves."""
        metrics: list[dict[str, Any]] = self._get(f"/v1/jobs/{job}/metrics")["metrics"]
        return metrics

    def whole_run(self, job: str) -> dict[str, Any]:
        """Return the document of a job's whole run, with its SLIs."""
        return self._get(f"/v1/jobs/{job}/run")

    def forget(self, job: str) -> None:
        """Remove the rings of a job that is over."""
        shutil.rmtree(self.rings / job, ignore_errors=True)

    def log_of(self, name: str) -> Path:
        """Return the log file of `collector` or `agent`."""
        return self._processes.log(name)

    def close(self) -> None:
        """End both processes."""
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
