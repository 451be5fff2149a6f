"""Real processes killed at random moments: every step is stored, none twice."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.waiting import until

from .conftest import Start, once, stored_steps

RANKS, STEPS = 3, 500
RANK = """
import sys, time
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
watch.start_at(1)
for number in range(int(sys.argv[1])):
    with watch.step(tokens=64) as step:
        with step.phase("forward"):
            pass
        step.record(loss=1.0)
    time.sleep(float(sys.argv[2]))
watch.finish()
watch.close()
"""
KILLS, MANY = 8, 1_000


@pytest.mark.parametrize("victim", ["agent", "collector"])
def test_a_crash_loop_loses_no_step_and_stores_none_twice(
    tmp_path: Path, start: Start, victim: str
) -> None:
    assert _crash_loop(tmp_path, start, victim, kills=KILLS, steps=STEPS, pause=0.008) >= 2


@pytest.mark.matrix  # 35 minutes
def test_a_thousand_kills_of_the_agent(tmp_path: Path, start: Start) -> None:
    assert _crash_loop(tmp_path, start, "agent", kills=MANY, steps=25_000, pause=0.1) == MANY


def _crash_loop(
    folder: Path, start: Start, victim: str, *, kills: int, steps: int, pause: float
) -> int:
    """Kill a process again and again while ranks train; returns how often."""
    port, store = free_port(), folder / "store.db"
    ranks = [
        start(
            "-c", RANK, str(steps), str(pause),
            RANK=str(rank), WORLD_SIZE=str(RANKS), STEPWATCH_DISABLE="",
        )
        for rank in range(RANKS)
    ]  # fmt: skip

    def begin(name: str) -> subprocess.Popen[bytes]:
        words = {
            "collector": ("--store", str(store), "--port", str(port)),
            "agent": (
                *("--spool", str(folder / "spool"), "--collector", f"http://127.0.0.1:{port}"),
                *("--port", "0", "--flush-seconds", "0.25", "--node", "n1"),
            ),
        }
        return start("-m", "stepwatch.cli", name, *words[name])

    processes = {name: begin(name) for name in ("collector", "agent")}
    chance, killed = random.Random(len(victim)), 0
    while any(rank.poll() is None for rank in ranks) and killed < kills:
        time.sleep(chance.uniform(0.9, 1.6))
        assert processes[victim].poll() is None, (folder / "log").read_text()
        processes[victim].send_signal(signal.SIGKILL)
        processes[victim].wait(10)
        killed += 1
        processes[victim] = begin(victim)
    assert [rank.wait(3600) for rank in ranks] == [0] * RANKS
    wanted = RANKS * steps
    until("every step to be stored", lambda: _delivered(folder, wanted), every=0.1)
    for name in ("agent", "collector"):
        processes[name].terminate()
        processes[name].wait(120)
    assert stored_steps(store) == once(RANKS, steps), (folder / "log").read_text()[-2000:]
    return killed


def _delivered(folder: Path, steps: int) -> bool:
    store = folder / "store.db"
    return store.exists() and len(stored_steps(store)) == steps
