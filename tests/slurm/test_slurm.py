"""The prolog and the health check under a real Slurm: a node that fails the doctor runs no job."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import ROOT
from tests.waiting import until

from .cluster import PROGRAMS, Cluster

DEPLOY = ROOT / "agent/deploy/slurm"
MISSING = [
    program for program in PROGRAMS if not shutil.which(program, path="/usr/sbin:/usr/bin:/bin")
]

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd runs prologs as root"),
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {MISSING}; apt-get install slurm-wlm"
    ),
]


class Site(Cluster):
    """A cluster whose prolog examines this machine, with a kernel's log of its own."""

    def __init__(self, folder: Path) -> None:
        self.kernel_log = folder / "kmsg"
        self.kernel_log.touch()
        stepwatch = Path(sys.executable).with_name("stepwatch")
        for name in ("prolog.sh", "health-check.sh"):
            wrapper = folder / name
            wrapper.write_text(
                "#!/bin/sh\n"
                f"export STEPWATCH_BIN={stepwatch} SLURM_CONF={folder}/slurm.conf\n"
                f"export STEPWATCH_DOCTOR_OPTIONS='--kernel-log {self.kernel_log}'\n"
                f"exec {DEPLOY / name}\n"
            )
            wrapper.chmod(0o755)
        super().__init__(folder, f"Prolog={folder}/prolog.sh\nPrologFlags=Alloc")

    def submit(self, marker: Path) -> str:
        """Submit a job that writes `marker`; returns its number."""
        words = ["sbatch", "--parsable", "--no-requeue", f"--output={self.folder}/job.out"]
        answer = self.ask(*words, f"--wrap=echo trained > {marker}")
        return answer.strip()

    def xid(self) -> None:
        """Let the kernel report that a device fell off the bus."""
        moment_us = time.monotonic_ns() // 1000
        text = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
        self.kernel_log.write_text(f"3,1,{moment_us},-;{text}\n")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    new_site = Site(tmp_path)
    try:
        new_site.start()
        yield new_site
    finally:
        new_site.close()


def test_a_prolog_lets_jobs_start_on_a_healthy_node_and_on_no_other(
    site: Site, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert site.submit(first)
    until("the job ran", first.exists)
    until("the node is idle again", lambda: site.node_state() == "idle")
    site.xid()
    job = site.submit(second)
    until("the node is drained", lambda: site.node_state().startswith("drain"))
    assert "rolog" in site.reason(), site.reason()
    assert not second.exists()
    log = (tmp_path / "slurmd.log").read_text()
    assert "XID 79 (GPU no longer reachable over PCIe) of 0000:3b:00" in log, log[-2000:]
    site.ask("scancel", job)


def test_a_health_check_drains_the_node_and_says_why(site: Site, tmp_path: Path) -> None:
    check = tmp_path / "health-check.sh"
    subprocess.run([check], check=True, timeout=120)
    assert site.node_state() == "idle"
    site.xid()
    subprocess.run([check], check=True, timeout=120)
    until("the node is drained", lambda: site.node_state().startswith("drain"))
    assert site.reason().startswith("stepwatch: xid: XID 79 (GPU no longer reachable over PCIe)")
