"""Debian's Slurm with one node, this machine: real munged, slurmctld, slurmd and sbatch."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.ports import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo")
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
ReturnToService=2
MpiDefault=none
{more}
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """One controller and one node in `folder`; `more` are further lines of slurm.conf."""

    def __init__(self, folder: Path, more: str) -> None:
        self.folder = folder
        self.host = os.uname().nodename
        for name in ("state", "spool"):
            (folder / name).mkdir()
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(
            _CONFIGURATION.format(
                host=self.host, controller=free_port(), node=free_port(), folder=folder, more=more
            )
        )
        self.environ = {**os.environ, "SLURM_CONF": str(self.configuration)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the daemons and wait until the node is idle."""
        socket = self.folder / "munge.socket"
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        with open(self.configuration, "a") as more:
            more.write(f"AuthType=auth/munge\nAuthInfo=socket={socket}\n")
        self._run(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket}",
            f"--pid-file={self.folder}/munge.pid", f"--log-file={self.folder}/munge.log",
            f"--seed-file={self.folder}/munge.seed",
        )  # fmt: skip
        _wait("munged listens", socket.exists)
        self._run("slurmctld", "-D", "-f", str(self.configuration))
        self._run("slurmd", "-D", "-f", str(self.configuration), "-N", self.host)
        _wait("the node is idle", lambda: self.node_state() == "idle")

    def node_state(self) -> str:
        """State of the node as `sinfo` shows it."""
        return self.ask("sinfo", "--noheader", "--format=%T").strip().rstrip("*")

    def reason(self) -> str:
        """Why the node is drained."""
        return self.ask("sinfo", "--noheader", "--list-reasons", "--format=%E").strip()

    def ask(self, *words: str) -> str:
        """Return the output of a Slurm command; empty if it fails."""
        completed = subprocess.run(
            words, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        return completed.stdout

    def close(self) -> None:
        """End all daemons."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, program: str, *words: str) -> None:
        path = shutil.which(program) or f"/usr/sbin/{program}"
        with open(self.folder / f"{program}.log", "ab") as log:
            self._processes.append(
                subprocess.Popen([path, *words], env=self.environ, stdout=log, stderr=log)
            )


def _wait(description: str, holds: object, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    assert callable(holds)
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(description)
        time.sleep(0.2)
