"""Ranks of one version, and beside them an agent and a collector of each pair of versions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from stepwatch.signals import places
from tests.ports import free_port
from tests.waiting import until

RANKS, STEPS = 2, 60
SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 300.0
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class Pair(NamedTuple):
    """Versions of an agent and of the collector that it sends to."""

    agent: str
    collector: str


class Site:
    """Processes that share one ring directory; each runs the code of the version it is given.

    `code` maps a version to the folder that goes first on its `PYTHONPATH`, None for this commit.
    """

    def __init__(self, folder: Path, code: Mapping[str, Path | None]) -> None:
        self._folder = folder
        self._code = code
        self._rings = folder / "rings"
        self._running: list[subprocess.Popen[bytes]] = []
        self._ports: dict[Pair, int] = {}

    def start_pair(self, pair: Pair) -> None:
        """Start a collector and, once it answers, its agent."""
        port = self._ports[pair] = free_port()
        place = self._place(pair)
        place.mkdir()
        words = ["collector", "--store", str(place / "store.db"), "--port", str(port)]
        self._start(pair.collector, place / "collector.log", "-m", "stepwatch.cli", *words)
        until(f"the collector of {pair} to answer", lambda: self._get(pair, "/healthz"), SECONDS)
        words = ["--collector", self._url(pair), "--ring-dir", str(self._rings), "--port", "0"]
        if self._code[pair.agent] is None:
            # Other tests write to this machine's, and what they wrote is a warning here.
            words += ["--kernel-log", str(place / "none")]
        agent = ["-m", "stepwatch.cli", "agent", *words, "--spool", str(place / "spool")]
        self._start(pair.agent, place / "agent.log", *agent)

    def train(self, versions: Iterable[str]) -> None:
        """Run a job with hooks of each version to its end, all at once."""
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
        trainers = []
        for version in versions:
            words = [*launcher, str(SCRIPTS / "train.py"), _job(version), str(STEPS)]
            log = self._folder / f"train-{version}.log"
            trainers.append((self._start(version, log, *words), log))
        for trainer, log in trainers:
            assert trainer.wait(SECONDS) == 0, log.read_text()

    def finished(self, pair: Pair, hooks: str) -> dict[str, Any]:
        """The job of a version of the hooks, as the collector of a pair has its last record."""

        def over() -> dict[str, Any] | None:
            response = self._get(pair, f"/v1/jobs/{_job(hooks)}")
            job = None if response is None or response.status_code != 200 else response.json()
            return job if job and job["state"] == "finished" else None

        return until(f"the job to finish at {pair}: {self.log(pair)}", over, SECONDS)

    def segment_counts(self, pair: Pair) -> dict[str, float]:
        """Segments received by the collector of a pair, by verdict."""
        response = self._get(pair, "/metrics")
        assert response is not None
        line = re.compile(r'^stepwatch_collector_segments_total\{verdict="(\w+)"\} (\S+)$', re.M)
        return {verdict: float(value) for verdict, value in line.findall(response.text)}

    def stored(self, pair: Pair, hooks: str) -> list[tuple[int, int]]:
        """(rank, step) of every STEP row of a job that the collector of a pair stored."""
        command = [sys.executable, str(SCRIPTS / "stored.py"), str(self._place(pair) / "store.db")]
        environment = self._environment(pair.collector)
        ran = subprocess.run(
            [*command, _job(hooks)], env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return [(rank, step) for rank, step in json.loads(ran.stdout)]

    def spooled(self, pair: Pair) -> list[str]:
        """Segments that the agent of a pair still holds, waiting or refused."""
        spool = self._place(pair) / "spool"
        return sorted(str(path.relative_to(spool)) for path in spool.rglob("*.seg"))

    def log(self, pair: Pair) -> str:
        """What the agent of a pair logged."""
        return (self._place(pair) / "agent.log").read_text()

    def close(self) -> None:
        """End everything."""
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _place(self, pair: Pair) -> Path:
        return self._folder / f"{pair.agent}-agent-{pair.collector}-collector"

    def _url(self, pair: Pair) -> str:
        return f"http://127.0.0.1:{self._ports[pair]}"

    def _get(self, pair: Pair, path: str) -> httpx.Response | None:
        try:
            return httpx.get(f"{self._url(pair)}{path}", timeout=5.0)
        except httpx.HTTPError:
            return None

    def _environment(self, version: str) -> dict[str, str]:
        outer = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
        code = self._code[version]
        return {
            **outer,
            places.ENV_RING_DIR: str(self._rings),
            places.ENV_NODE: "node-0",
            "PYTHONPATH": "" if code is None else str(code),
            "OMP_NUM_THREADS": "1",
        }

    def _start(self, version: str, log: Path, *words: str) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment(version),
                cwd=self._folder,
                start_new_session=True,
            )
        self._running.append(process)
        return process


def _job(hooks: str) -> str:
    return f"mixed-{hooks}"
