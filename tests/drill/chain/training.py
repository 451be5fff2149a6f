"""The reference trainer under torchrun on two nodes, as network namespaces with a link between."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepwatch.faults.injector import SEPARATOR
from stepwatch.signals import places
from stepwatch.trainer.run.directory import HISTORY_NAME
from tests.ports import free_port
from tests.services import ROOT
from tests.soak.processes import end, spawn
from tests.verdicts.real.environ import ENV_NODE_SPACES
from tests.verdicts.real.links import Links

NODES, RANKS_A_NODE = 2, 2
_LITTLE = ("--data-bytes", "1048576", "--length", "32", "--steps", "100000",
           "--mesh", "pp=2,dp_shard=2", "--grace-seconds", "20")  # fmt: skip
"""Little to compute: the drill shares a machine with its servers."""
_GRACE_SECONDS = 40.0


class Training:
    """Starts a job on both nodes and ends it; each node has a folder of rings."""

    def __init__(self, folder: Path, links: Links) -> None:
        self.folder = folder
        self.rings = [folder / f"rings-{node}" for node in range(NODES)]
        for folder_of_node in self.rings:
            folder_of_node.mkdir()
        self._links = links
        self._launchers: list[subprocess.Popen[bytes]] = []
        self._starts: dict[str, int] = {}

    def start(
        self,
        job: str,
        faults: Sequence[str],
        flags: Sequence[str] = (),
        job_class: str = "production",
    ) -> int:
        """Start an attempt of a job; return its number."""
        self.kill()
        job_folder = self.folder / job
        job_folder.mkdir(exist_ok=True)
        attempt = self._starts[job] = self._starts.get(job, -1) + 1
        spaces, port = self._links.environ[ENV_NODE_SPACES].split(":"), free_port()
        for node, space in enumerate(spaces):
            words = [
                "ip", "netns", "exec", space, sys.executable, "-m", "torch.distributed.run",
                "--nnodes", str(NODES), "--node-rank", str(node),
                "--nproc-per-node", str(RANKS_A_NODE), "--max-restarts", "0",
                "--master-addr", self._links.environ["MASTER_ADDR"], "--master-port", str(port),
                "-m", "stepwatch.trainer", "--job", job, "--run-dir", str(job_folder / "run"),
                *_LITTLE, *flags,
            ]  # fmt: skip
            environ = {
                **self._environ(node),
                places.ENV_FAULTS: SEPARATOR.join(faults),
                places.ENV_FAULT_LOG: str(job_folder / f"faults-{attempt}.jsonl"),
                places.ENV_ATTEMPT_BASE: str(attempt),
                places.ENV_JOB_CLASS: job_class,
            }
            quoted = [f"{name}={value}" for name, value in environ.items()]
            self._launchers.append(spawn(job_folder / f"node-{node}.log", "env", *quoted, *words))
        return attempt

    def fault_starts(self, job: str) -> dict[str, float]:
        """Return when each fault of the first attempt began, in Unix seconds, as its rank logged
        it."""
        log = self.folder / job / "faults-0.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        noted: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return {entry["fault"]: entry["at"] for entry in reversed(noted)}

    def evaluations(self, job: str) -> list[dict[str, Any]]:
        """Return the evaluations that a job's trainer logged, from all its attempts."""
        history = self.folder / job / "run" / HISTORY_NAME
        lines = history.read_text().splitlines() if history.exists() else []
        noted: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [entry for entry in noted if "evaluated" in entry]

    def pids(self, node: int | None = None) -> dict[int, int]:
        """Return the process of each rank (of one node), by rank."""
        launchers = self._launchers if node is None else self._launchers[node : node + 1]
        pids = {}
        for launcher in launchers:
            for pid in _descendants(launcher.pid):
                rank = _variable(pid, "RANK")
                if rank:
                    pids[int(rank)] = pid
        return pids

    def has_ended(self) -> bool:
        """Return whether a launcher has ended."""
        return any(launcher.poll() is not None for launcher in self._launchers)

    def resume(self) -> None:
        """Continue stopped processes."""
        for pid in self.pids().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def preempt(self) -> None:
        """End the job as a preempting scheduler does, and wait for its end."""
        for launcher in self._launchers:
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        while any(launcher.poll() is None for launcher in self._launchers):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.kill()

    def kill(self, node: int | None = None) -> None:
        """Kill the whole job (or its part on one node) at once."""
        launchers = self._launchers if node is None else self._launchers[node : node + 1]
        for launcher in launchers:
            for pid in _descendants(launcher.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            end(launcher, signal.SIGKILL)
        if node is None:
            self._launchers.clear()

    def _environ(self, node: int) -> dict[str, str]:
        return {
            places.ENV_RING_DIR: str(self.rings[node]),
            places.ENV_NODE: f"node-{node}",
            "GLOO_SOCKET_IFNAME": self._links.environ["GLOO_SOCKET_IFNAME"],
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        }


def _descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _descendants(child)


def _variable(pid: int, name: str) -> str:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{name}=".encode()
    return next((pair[len(start) :].decode() for pair in pairs if pair.startswith(start)), "")
