"""Torch's worker server beside the ring: there when torch is, private, and never in the way."""

from __future__ import annotations

import json
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks.recorder.worker_server import mode_of
from tests.hooks.conftest import Run, only_ring

torch = pytest.importorskip("torch", reason="the worker server is torch's")

SERVED = """
import http.client, json, os, socket, stat, sys
import torch, torch.distributed as dist
from stepwatch.hooks import Watch

watch = Watch.from_env(job="job")
child = os.fork()  # before there is a group: Gloo's own threads do not survive a fork
if not child:
    sys.exit(3)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(4))
path = watch.recorder.ring.identity.worker_socket

class Connection(http.client.HTTPConnection):
    def connect(self):
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")

connection = Connection("rank")
connection.request("POST", "/handler/fr_trace_json")
answer = json.loads(connection.getresponse().read())
status = os.stat(path)
watch.close()
print(json.dumps({
    "path": path, "mode": stat.S_IMODE(status.st_mode), "socket": stat.S_ISSOCK(status.st_mode),
    "entries": len(answer["entries"]), "child": ended, "left": os.path.exists(path),
    "errors": watch.guard.errors,
}))
sys.stdout.flush()
os._exit(0)
"""


def served(run: Run, **environ: str) -> dict[str, Any]:
    ended = run(SERVED, **environ)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "WorkerServer" not in ended.stderr, "torch's line about its socket is nobody's news"
    assert "is deprecated" not in ended.stderr, "no variable is set that torch warns of"
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def test_a_rank_answers_on_a_private_socket_and_a_fork_of_it_ends_as_it_would(
    run: Run, rings: Path
) -> None:
    answer = served(run)
    assert answer["path"] == str(rings / "job" / "0" / "0.sock")
    assert answer["socket"] and stat.S_IMODE(rings.stat().st_mode) == 0o700
    assert answer["mode"] == 0o666, "its directory lets nobody else in"
    assert answer["entries"] == 3, "the flight recorder is on"
    assert answer["child"] == 3, "a forked child must not join its parent's server"
    assert not answer["left"] and answer["errors"] == 0


@pytest.mark.parametrize(
    ("modes", "expected"),
    [((0o755, 0o755), 0o600), ((0o755, 0o700), 0o666), ((0o700, 0o755), 0o666)],
)
def test_a_socket_is_open_only_behind_a_closed_directory(
    modes: tuple[int, int], expected: int
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        inner = Path(place, "job")
        inner.mkdir()
        for folder, mode in zip((Path(place), inner), modes, strict=True):
            folder.chmod(mode)
        assert mode_of(inner / "0.sock") == expected
        (Path(place) / "link").symlink_to(inner)
        assert mode_of(Path(place) / "link" / "0.sock") == 0o600, "a link guards nothing"


def test_a_path_too_long_for_a_unix_socket_still_serves(run: Run, tmp_path: Path) -> None:
    answer = served(run, STEPWATCH_RING_DIR=str(tmp_path / ("long" * 20)))
    assert len(answer["path"]) > 107 and answer["entries"] == 3


def test_a_path_too_long_for_the_ring_is_no_server_and_no_error(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200) / ("b" * 200)
    text = "from stepwatch.hooks import Watch; import torch.distributed; w = Watch.from_env()"
    ended = run(f"{text}; w.attach(); print(w.enabled, w.guard.errors)",
                STEPWATCH_RING_DIR=str(folder))  # fmt: skip
    assert ended.stdout.split() == ["True", "0"], ended.stderr
    assert only_ring(folder).identity.worker_socket == ""


def test_without_torch_nothing_is_imported_and_nothing_listens(run: Run, rings: Path) -> None:
    text = """
import sys
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
with watch.step():
    pass
print("torch" in sys.modules, watch.guard.errors)
"""
    ended = run(text)
    assert ended.stdout.split() == ["False", "0"], ended.stderr
    assert only_ring(rings).identity.worker_socket
    assert not list(rings.rglob("*.sock"))


def test_a_torch_without_the_server_is_no_error(run: Run) -> None:
    text = """
import torch.distributed
from stepwatch.hooks import Watch
del torch._C._distributed_c10d._WorkerServer
watch = Watch.from_env(job="job")
print(watch.enabled, watch.guard.errors)
"""
    assert run(text).stdout.split() == ["True", "0"]


def test_the_users_own_flight_recorder_setting_stands(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        monkeypatch.delenv(name, raising=False)  # a Watch of this process may have set it
    text = """
import os
from stepwatch.hooks import Watch
Watch.from_env(job="job")
print(os.environ["TORCH_FR_BUFFER_SIZE"], os.environ.get("TORCH_NCCL_TRACE_BUFFER_SIZE"))
"""
    assert run(text, TORCH_FR_BUFFER_SIZE="17").stdout.split() == ["17", "None"]
    assert run(text).stdout.split() == ["2000", "None"]
