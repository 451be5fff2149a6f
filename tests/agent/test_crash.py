"""Real processes killed at random moments: every step is stored, none twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatch.signals import places
from tests.ports import free_port
from tests.waiting import until

from .conftest import once, stored_steps

RANKS, STEPS = 3, 500
RANK = f"""
import time
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
watch.start_at(1)
for number in range({STEPS}):
    with watch.step(tokens=64) as step:
        with step.phase("forward"):
            pass
        step.record(loss=1.0)
    time.sleep(0.008)
watch.finish()
watch.close()
"""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes that end with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **environ: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            places.ENV_RING_DIR: str(tmp_path / "rings"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environ,
        }
        with open(tmp_path / "log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, *words], env=environment, stdout=log, stderr=log
            )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize("victim", ["agent", "collector"])
def test_a_crash_loop_loses_no_step_and_stores_none_twice(
    tmp_path: Path, start: Start, victim: str
) -> None:
    port, store = free_port(), tmp_path / "store.db"
    ranks = [
        start("-c", RANK, RANK=str(rank), WORLD_SIZE=str(RANKS), STEPWATCH_DISABLE="")
        for rank in range(RANKS)
    ]

    def begin(name: str) -> subprocess.Popen[bytes]:
        words = {
            "collector": ("--store", str(store), "--port", str(port)),
            "agent": (
                *("--spool", str(tmp_path / "spool"), "--collector", f"http://127.0.0.1:{port}"),
                *("--port", "0", "--flush-seconds", "0.25", "--node", "n1"),
            ),
        }
        return start("-m", "stepwatch.cli", name, *words[name])

    processes = {name: begin(name) for name in ("collector", "agent")}
    chance = random.Random(len(victim))
    kills = 0
    while any(rank.poll() is None for rank in ranks) and kills < 8:
        time.sleep(chance.uniform(0.9, 1.6))
        assert processes[victim].poll() is None, (tmp_path / "log").read_text()
        processes[victim].send_signal(signal.SIGKILL)
        processes[victim].wait(10)
        kills += 1
        processes[victim] = begin(victim)
    assert kills >= 2
    assert [rank.wait(120) for rank in ranks] == [0] * RANKS
    until("every step to be stored", lambda: _delivered(tmp_path), every=0.1)
    for name in ("agent", "collector"):
        processes[name].terminate()
        processes[name].wait(120)
    assert stored_steps(store) == once(RANKS, STEPS), (tmp_path / "log").read_text()[-2000:]


def _delivered(folder: Path) -> bool:
    store = folder / "store.db"
    return store.exists() and len(stored_steps(store)) == RANKS * STEPS
