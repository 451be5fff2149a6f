"""Whatever is killed -9 in mid-run, no step is missing in the store and none is there twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from tests.waiting import until

from .conftest import JOB, Site

STEPS = 24
EVERY_STEP_ONCE = sorted((rank, step) for rank in range(4) for step in range(STEPS))


def all_arrived(site: Site) -> bool:
    """Whether the collector has seen every rank finish."""
    job = site.job()
    return job is not None and job["state"] == "finished" and job["step"] == STEPS - 1


def settled(site: Site) -> int:
    """Steps in the store once it has what was under way when the agent died."""
    counts: list[int] = []

    def twice_the_same() -> bool:
        counts.append(len(site.stored_steps()))
        return counts[-1:] == counts[-2:-1]

    until("the store to rest", twice_the_same, every=1.0)
    return counts[-1]


def test_a_killed_agent_loses_nothing(site: Site) -> None:
    site.start_collector()
    agent = site.start_agent()
    trainer = site.start_trainer(STEPS)
    until("step 6", site.reached(6))
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    at_the_kill = settled(site)
    until("the trainer to go on alone", lambda: trainer.poll() is not None)
    assert trainer.returncode == 0
    assert len(site.stored_steps()) == at_the_kill < len(EVERY_STEP_ONCE)
    site.start_agent()
    until("the rest to arrive", lambda: all_arrived(site))
    assert sorted(site.stored_steps()) == EVERY_STEP_ONCE


def test_a_killed_collector_loses_nothing_and_repeats_nothing(site: Site) -> None:
    collector = site.start_collector()
    site.start_agent()
    trainer = site.start_trainer(STEPS)
    for step in (4, 12):
        until(f"step {step}", site.reached(step))
        collector.send_signal(signal.SIGKILL)
        collector.wait()
        collector = site.start_collector()
    until("the trainer to finish", lambda: trainer.poll() is not None)
    assert trainer.returncode == 0
    until("the rest to arrive", lambda: all_arrived(site))
    assert sorted(site.stored_steps()) == EVERY_STEP_ONCE


def test_the_black_box_of_a_killed_rank_shows_its_last_step_and_phase(site: Site) -> None:
    trainer = site.start_trainer(12, "--fault", "kill:rank=1,step=6")
    until("the trainer to fail", lambda: trainer.poll() is not None)
    assert trainer.returncode != 0
    words = [sys.executable, "-m", "stepwatch.cli", "blackbox", str(site.rings), "--json"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    rings = {ring["rank"]: ring for ring in json.loads(ran.stdout)["rings"]}
    dead = rings[1]
    assert (dead["job"], dead["process"], dead["end"]) == (JOB, "gone", None)
    assert (dead["last_finished_step"], dead["step"], dead["phase"]) == (5, 6, "other")
    assert dead["records_torn"] == 0
    assert all(rings[rank]["step"] <= 6 for rank in (0, 2, 3))
