"""The agent of a node asks ranks of other users, with the capabilities of its unit and no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.agent.stalls import flight
from tests.services import ROOT

pytest.importorskip("torch", reason="the worker server is torch's")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can become two other users, with setpriv",
)
UNIT = ROOT / "agent/deploy/systemd/stepwatch-agent.service"
RANK = """
import os, sys
import torch, torch.distributed as dist
from stepwatch.hooks import Watch

os.setgroups([]), os.setgid(4242), os.setuid(4242)
watch = Watch.from_env(job="job")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(4))
print(watch.recorder.ring.identity.worker_socket, watch.guard.errors, flush=True)
sys.stdin.read()
os._exit(0)
"""
ASKING = """
import os, sys
from pathlib import Path
from stepwatch.agent.stalls import server

if len(sys.argv) > 2:
    os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
sys.stdout.buffer.write(server.ask(Path(sys.argv[1]), "fr_trace_json"))
"""


def capabilities() -> str:
    """Those of the unit as setpriv writes them: -all,+syslog."""
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    return ",".join(["-all", *(f"+{name.lower().removeprefix('cap_')}" for name in line.split())])


@pytest.fixture
def socket() -> Iterator[str]:
    """Where the rank of another user listens, in a ring directory that users share."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        Path(place).chmod(0o755)
        rings = Path(place, "rings")
        rings.mkdir()
        rings.chmod(0o1777)
        environ = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}
        environ |= {"STEPWATCH_RING_DIR": str(rings), "RANK": "0", "WORLD_SIZE": "1"}
        words = [sys.executable, "-c", RANK]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        ) as rank:
            assert rank.stdout is not None and rank.stdin is not None
            path, errors = rank.stdout.readline().split()
            assert (Path(path).parent.stat().st_uid, errors) == (4242, "0")
            yield path
            rank.stdin.close()


@needs_root
def test_the_capabilities_of_the_unit_are_enough_to_ask_another_users_rank(socket: str) -> None:
    words = ["setpriv", f"--bounding-set={capabilities()}", sys.executable, "-c", ASKING, socket]
    ended = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert len(flight.parse(ended.stdout).entries) == len(json.loads(ended.stdout)["entries"]) == 3


@needs_root
def test_another_user_cannot_ask_it(socket: str) -> None:
    words = [sys.executable, "-c", ASKING, socket, "4343"]
    ended = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 1 and b"PermissionError" in ended.stderr, ended.stderr.decode()
