"""Prometheus and Alertmanager as packaged, with the generated configuration unchanged."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from stepwatch.signals.errors import StepwatchError
from tests.ports import free_port
from tests.soak.processes import CLI, end, last_line, spawn

SCRAPE_SECONDS = 5
"""The advice of alerts/README.md: a page within 30 s of a hang needs this interval."""
_START_SECONDS = 60.0


class DrillError(StepwatchError):
    """The drill cannot run: a program is missing, or a server did not start."""


def program(*names: str) -> str:
    """Return the path of a program that is installed under one of these names.

    Raises:
        DrillError: none is installed.
    """
    executable = next((path for name in names if (path := shutil.which(name))), None)
    if executable is None:
        raise DrillError(f"{names[0]} is not installed; tests/install-tools installs it")
    return executable


def build(site: Path, folder: Path, collector: str) -> None:
    """Write rules, routes and dashboards as a site's owner would, with links to `collector`.

    Raises:
        DrillError: `stepwatch build` refuses.
    """
    links = ("--runbook-url", f"{collector}/runbooks", "--page-url", collector)
    words = [*CLI, "build", "all", "--site", str(site), "--out", str(folder), *links]
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise DrillError(f"stepwatch build: {completed.stderr.strip()}")


def get_json(url: str, **query: str) -> Any:
    """Return the JSON that a server answers, None for 404.

    Raises:
        DrillError: it does not answer for a minute, or refuses.
    """
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            answer = httpx.get(url, params=query, timeout=20.0)
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                break
            reason = f"status {answer.status_code}"
        except httpx.HTTPError as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise DrillError(f"{url} does not answer: {reason}")
        time.sleep(0.5)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return None
    if answer.is_error:
        raise DrillError(f"{url} refuses: {answer.text[:200]}")
    return answer.json()


class Servers:
    """Both servers; Prometheus scrapes `targets` (addresses by job name)."""

    def __init__(self, folder: Path, targets: Mapping[str, Sequence[str]]) -> None:
        self.folder = folder
        self.alertmanager = f"http://127.0.0.1:{free_port()}"
        self.prometheus = f"http://127.0.0.1:{free_port()}"
        self._targets = targets
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start both and wait until they are ready.

        Raises:
            DrillError: one does not start.
        """
        self.start_alertmanager()
        self.start_prometheus()

    def start_alertmanager(self) -> None:
        """Start Alertmanager on its data."""
        where = self.alertmanager.removeprefix("http://")
        self._start(
            "alertmanager", self.alertmanager, program("prometheus-alertmanager", "alertmanager"),
            f"--config.file={self.folder / 'alertmanager.yaml'}",
            f"--storage.path={self.folder / 'alertmanager'}", f"--web.listen-address={where}",
            "--cluster.listen-address=",
        )  # fmt: skip

    def start_prometheus(self) -> None:
        """Start Prometheus on its data."""
        config = self.folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(self._config()))
        where = self.prometheus.removeprefix("http://")
        self._start(
            "prometheus", self.prometheus, program("prometheus"), f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'prometheus'}", f"--web.listen-address={where}",
            "--enable-feature=exemplar-storage",
        )  # fmt: skip

    def reload_prometheus(self) -> int:
        """Make Prometheus reload its configuration and rules; return its process number."""
        process = self._running["prometheus"]
        process.send_signal(signal.SIGHUP)
        return process.pid

    def kill(self, name: str) -> None:
        """Kill a server as a crash would."""
        end(self._running.pop(name), 9)

    def close(self) -> None:
        """End both."""
        for name in list(self._running):
            end(self._running.pop(name), 15, 10.0)

    def firing_alerts(self, job: str) -> list[dict[str, Any]]:
        """Return a job's alerts that fire in Prometheus."""
        alerts = get_json(f"{self.prometheus}/api/v1/alerts")["data"]["alerts"]
        return [
            alert
            for alert in alerts
            if alert["state"] == "firing" and alert["labels"].get("job_name", "") == job
        ]

    def suppressed_alerts(self, job: str) -> list[dict[str, Any]]:
        """Return a job's alerts that Alertmanager suppresses."""
        alerts = get_json(f"{self.alertmanager}/api/v2/alerts", filter=f'job_name="{job}"')
        return [alert for alert in alerts if alert["status"]["state"] == "suppressed"]

    def _config(self) -> dict[str, Any]:
        alerting = {"static_configs": [{"targets": [self.alertmanager.removeprefix("http://")]}]}
        every = f"{SCRAPE_SECONDS}s"
        return {
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [str(self.folder / "training.rules.yaml")],
            "alerting": {"alertmanagers": [alerting]},
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": list(addresses)}]}
                for name, addresses in self._targets.items()
            ],
        }

    def _start(self, name: str, url: str, *words: str) -> None:
        log = self.folder / f"{name}.log"
        self._running[name] = process = spawn(log, *words)
        deadline = time.monotonic() + _START_SECONDS
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise DrillError(f"{name} did not start: {last_line(log)}")
            time.sleep(0.1)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False
