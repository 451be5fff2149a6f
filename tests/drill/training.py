"""The reference trainer under torchrun on two nodes, as network namespaces with a link between."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stepwatch.faults.injector import SEPARATOR
from stepwatch.signals import places
from tests.ports import free_port
from tests.services import ROOT
from tests.soak.processes import end, spawn
from tests.verdicts.real.environ import ENV_NODE_SPACES
from tests.verdicts.real.links import Links

NODES, RANKS_A_NODE = 2, 2
_LITTLE = ("--data-bytes", "1048576", "--length", "32", "--steps", "100000",
           "--mesh", "pp=2,dp_shard=2")  # fmt: skip
"""Little to compute: the drill shares a machine with its servers."""


class Training:
    """Starts a job on both nodes, and ends it; each node has a folder of rings."""

    def __init__(self, folder: Path, links: Links) -> None:
        self.folder = folder
        self.rings = [folder / f"rings-{node}" for node in range(NODES)]
        for each in self.rings:
            each.mkdir()
        self._links = links
        self._launchers: list[subprocess.Popen[bytes]] = []

    def start(self, job: str, faults: Sequence[str], flags: Sequence[str] = ()) -> None:
        """Start an attempt of a job of the class production."""
        self.stop()
        own = self.folder / job
        own.mkdir(exist_ok=True)
        spaces, port = self._links.environ[ENV_NODE_SPACES].split(":"), free_port()
        for node, space in enumerate(spaces):
            words = [
                "ip", "netns", "exec", space, sys.executable, "-m", "torch.distributed.run",
                "--nnodes", str(NODES), "--node-rank", str(node),
                "--nproc-per-node", str(RANKS_A_NODE), "--max-restarts", "0",
                "--master-addr", self._links.environ["MASTER_ADDR"], "--master-port", str(port),
                "-m", "stepwatch.trainer", "--job", job, "--run-dir", str(own / "run"),
                *_LITTLE, *flags,
            ]  # fmt: skip
            environ = {**self._environ(node), places.ENV_FAULTS: SEPARATOR.join(faults)}
            quoted = [f"{name}={value}" for name, value in environ.items()]
            self._launchers.append(spawn(own / f"node-{node}.log", "env", *quoted, *words))

    def stop(self) -> None:
        """End all of it at once, as an operator does who restarts a job elsewhere."""
        for launcher in self._launchers:
            for pid in _descendants(launcher.pid):
                _kill(pid)
            end(launcher, 9)
        self._launchers.clear()

    def _environ(self, node: int) -> dict[str, str]:
        return {
            places.ENV_RING_DIR: str(self.rings[node]),
            places.ENV_JOB_CLASS: "production",
            "STEPWATCH_NODE": f"node-{node}",
            "GLOO_SOCKET_IFNAME": self._links.environ["GLOO_SOCKET_IFNAME"],
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        }


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in children for each in (int(child), *_descendants(int(child)))]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
