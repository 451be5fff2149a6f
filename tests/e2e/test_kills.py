"""Whichever process is killed -9 during a run, the store has every step once.

The ranks are forked: the kills do not concern their start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from stepwatch.signals import places
from stepwatch.trainer.run.launch import rank_environment
from tests.distributed.conftest import SMALL
from tests.ranks.forked import ForkedRanks, RunEnd
from tests.waiting import until

from .conftest import JOB, Site

STEPS = 24
RANKS = 4
EVERY_STEP_ONCE = sorted((rank, step) for rank in range(RANKS) for step in range(STEPS))
PACE = tuple(f"slow-data:rank={rank},step=0,seconds=0.5" for rank in range(RANKS))
"""Each step waits for its data, so that the run outlasts the kills on any machine."""
Train = Callable[..., "Future[RunEnd]"]


@pytest.fixture
def train(site: Site, forked_ranks: ForkedRanks) -> Iterator[Train]:
    """Yield a function that trains the reference trainer for some steps, with faults."""
    with ThreadPoolExecutor(1) as pool:

        def start(steps: int, *faults: str) -> Future[RunEnd]:
            environ = {**os.environ, places.ENV_RING_DIR: str(site.rings)}
            words = ["--job", JOB, "--steps", str(steps), "--run-dir", str(site.folder / "run")]
            return pool.submit(
                forked_ranks.run,
                ["-m", "stepwatch.trainer", *SMALL, "--mesh", "pp=2,dp_shard=2", *words],
                RANKS,
                site.folder / "ranks",
                rank_environment(faults, environ),
            )

        yield start


def all_arrived(site: Site) -> bool:
    """Return whether the collector has seen every rank finish."""
    job = site.job()
    return job is not None and job["state"] == "finished" and job["step"] == STEPS - 1


def wait_for_rest(site: Site) -> int:
    """Return the number of stored steps once the rows in flight at the agent's death have
    arrived."""
    counts: list[int] = []

    def twice_the_same() -> bool:
        counts.append(len(site.stored_steps()))
        return counts[-1:] == counts[-2:-1]

    until("the store to rest", twice_the_same, every=1.0)
    return counts[-1]


@pytest.mark.long(
    "tests/agent/test_crash.py::test_a_crash_loop_loses_no_step_and_stores_none_twice",
    "tests/e2e/test_kills.py::test_the_black_box_of_a_killed_rank_shows_its_last_step_and_phase",
)
def test_a_killed_agent_loses_nothing(site: Site, train: Train) -> None:
    site.start_collector()
    agent = site.start_agent()
    trainer = train(STEPS, *PACE)
    until("step 6", site.has_reached(6))
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    at_the_kill = wait_for_rest(site)
    assert trainer.result().codes == [0] * RANKS, "it goes on alone"
    assert len(site.stored_steps()) == at_the_kill < len(EVERY_STEP_ONCE)
    site.start_agent()
    until("the rest to arrive", lambda: all_arrived(site))
    assert sorted(site.stored_steps()) == EVERY_STEP_ONCE


@pytest.mark.long(
    "tests/agent/test_crash.py::test_a_crash_loop_loses_no_step_and_stores_none_twice",
    "tests/collector/runtime/test_restart.py::test_kill_9_in_a_loop_loses_nothing_and_doubles_nothing",
)
def test_a_killed_collector_loses_nothing_and_repeats_nothing(site: Site, train: Train) -> None:
    collector = site.start_collector()
    site.start_agent()
    trainer = train(STEPS, *PACE)
    for step in (4, 12):
        until(f"step {step}", site.has_reached(step))
        collector.send_signal(signal.SIGKILL)
        collector.wait()
        collector = site.start_collector()
    assert trainer.result().codes == [0] * RANKS
    until("the rest to arrive", lambda: all_arrived(site))
    assert sorted(site.stored_steps()) == EVERY_STEP_ONCE


def test_the_black_box_of_a_killed_rank_shows_its_last_step_and_phase(
    site: Site, train: Train
) -> None:
    assert train(12, "kill:rank=1,step=6").result().codes[1] == -signal.SIGKILL
    words = [sys.executable, "-m", "stepwatch.cli", "blackbox", str(site.rings), "--json"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    rings = {ring["rank"]: ring for ring in json.loads(ran.stdout)["rings"]}
    dead = rings[1]
    assert (dead["job"], dead["process"], dead["end"]) == (JOB, "gone", None)
    assert (dead["last_finished_step"], dead["step"], dead["phase"]) == (5, 6, "other")
    assert dead["records_torn"] == 0
    assert all(rings[rank]["step"] <= 6 for rank in (0, 2, 3))
