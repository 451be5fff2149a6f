"""A simulated fleet against a real collector: nothing lost, nothing doubled, faults named."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from stepwatch.cli.main import INTERRUPTED, OK, PROBLEM, USAGE, main
from stepwatch.cli.simulate.run import Simulation
from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.http import Answer, Client, CutOffError
from stepwatch.signals.records import Kind
from tests.collector.process import Process, running
from tests.waiting import until

from .conftest import plan_with


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with running(tmp_path_factory.mktemp("collector")) as process:
        yield process


def simulate(collector: Process, folder: Path, job: str, *words: str) -> dict[str, Any]:
    """Run the command at full speed, which must succeed; its report."""
    file = folder / "report.json"
    options = ["simulate", "--collector", collector.url, "--job", job, "--json", str(file)]
    assert main([*options, "--speed", "0", *words]) == OK
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def stored_pairs(collector: Process, job: str) -> list[tuple[int, int]]:
    """(rank, step) of every STEP row at rest."""
    store = Store.sqlite(collector.store)
    try:
        tables = [wire.decode(payload).tables for payload, *_ in store.segments(job)]
    finally:
        store.close()
    rows = np.concatenate([table[Kind.STEP] for table in tables if Kind.STEP in table])
    return sorted(zip(rows["rank"].tolist(), rows["step"].tolist(), strict=True))


def every_pair(ranks: int, steps: int) -> list[tuple[int, int]]:
    return [(rank, step) for rank in range(ranks) for step in range(steps)]


def test_a_healthy_run_arrives_once_and_raises_nothing(
    collector: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = simulate(collector, tmp_path, "healthy", "--ranks", "64", "--steps", "80")
    assert stored_pairs(collector, "healthy") == every_pair(64, 80)
    assert (report["rank_steps"], report["state"], report["incidents"]) == (5120, "finished", [])
    assert (report["refused"], report["unsent"], report["repeated"]) == (0, 0, 0)
    printed = capsys.readouterr().out
    assert "5,120 rank-steps in " in printed and "no incident" in printed


@pytest.mark.parametrize(
    ("fault", "kind", "rank", "cause"),
    [
        ("slow-compute", "straggler", 37, "slow-compute"),
        ("slow-data", "straggler", 37, "slow-data"),
        ("hang", "hang", 37, "not-arrived"),
        ("kill", "rank-failed", 37, "process-gone"),
        ("slow-node", "straggler", range(32, 40), "cpu-steal"),
        ("slow-link", "slow-collective", -1, "nic-errors"),
    ],
)
def test_the_injected_fault_and_no_other_is_named(
    collector: Process, tmp_path: Path, fault: str, kind: str, rank: int | range, cause: str
) -> None:
    # What is usual on the network of a node is what it was a minute before.
    begins = 120 if fault == "slow-link" else 50
    words = ["--steps", str(begins + 30), "--fault", f"{fault}:rank=37,step={begins}"]
    report = simulate(collector, tmp_path, fault, *words)
    *begun, incident = sorted(report["incidents"], key=lambda item: item["kind"] == kind)
    assert [incident["kind"] for incident in begun] in ([], ["pause"]), "a hang begins as a pause"
    assert (incident["kind"], incident["cause"]) == (kind, cause)
    assert incident["rank"] in (rank if isinstance(rank, range) else [rank])
    assert incident["since_step"] == begins
    incident_document = httpx.get(f"{collector.url}/v1/incidents/{incident['id']}").json()
    assert "sim-00004" in (
        incident_document["node"],
        *incident_document["summary"].replace("'s", "").split(),
    )
    assert report["faults"][0]["fault"].startswith(f"{fault}:rank=37,step={begins}")


def test_incidents_of_an_earlier_run_of_that_name_are_not_reported(
    collector: Process, tmp_path: Path
) -> None:
    fault = "slow-data:rank=3,step=30"
    first = simulate(collector, tmp_path, "again", "--steps", "50", "--fault", fault)
    assert [item["kind"] for item in first["incidents"]] == ["straggler"]
    assert simulate(collector, tmp_path, "again", "--steps", "50")["incidents"] == []


def test_a_collector_that_is_killed_in_mid_run_loses_and_doubles_nothing(
    collector: Process,
) -> None:
    answers = []

    class Killing(Client):
        """What the third request brought is stored; that it is, nobody learns."""

        @contextmanager
        def stream(self, method: str, path: str, **sent: Any) -> Iterator[Answer]:
            with super().stream(method, path, **sent) as answer:
                if method == "POST":
                    answers.append(answer)
                if len(answers) == 3:
                    collector.end()
                    collector.start()
                    raise CutOffError("the collector is gone")
                yield answer

    plan = plan_with(ranks=256, nodes=128, steps=20, speed=0, job="killed")
    with Killing(collector.url, seconds=60.0) as client:
        outcome = Simulation(plan, client, SystemClock(), print, connections=1).run()
    assert outcome.sent.repeated > 0 and outcome.sent.failed_requests > 0
    assert outcome.is_complete and outcome.state == "finished"
    assert stored_pairs(collector, "killed") == every_pair(256, 20)


def test_ctrl_c_interrupts_the_job_and_all_that_was_made_arrives(
    collector: Process, tmp_path: Path
) -> None:
    def interrupt() -> None:
        url = f"{collector.url}/v1/jobs/stopped"
        until("the job to arrive", lambda: httpx.get(url).status_code == 200)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    file = tmp_path / "report.json"
    words = ["--ranks", "16", "--seconds", "600", "--step-seconds", "0.1", "--json", str(file)]
    words += ["--job", "stopped", "--flush-seconds", "0.5", "--collector", collector.url]
    assert main(["simulate", *words]) == INTERRUPTED
    watcher.join()
    report = json.loads(file.read_text())
    assert (report["interrupted"], report["state"], report["unsent"]) == (True, "interrupted", 0)
    assert stored_pairs(collector, "stopped") == every_pair(16, report["newest_step"] + 1)


def test_mistakes_are_answered_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--collector", "http://127.0.0.1:9", "--steps", "2"]) == PROBLEM
    assert main(["simulate", "--fault", "hung"]) == USAGE
    assert main(["simulate", "--ranks", "12", "--nodes", "5"]) == USAGE
    assert main(["simulate", "--connections", "17"]) == USAGE
    complaints = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in complaints] == ["stepwatch"] * 4
    assert "start one with `stepwatch collector`" in complaints[0]
