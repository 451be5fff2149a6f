"""Plain loops under `stepwatch run`: a client's back-off, an uploader that never ends, a stop."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.stalls import stack
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from tests.agent.conftest import serving
from tests.hangs.test_hangs import end_ranks, environment

pytest.importorskip("torch", reason="the ranks train with torch")
pytestmark = pytest.mark.matrix

PROGRAM = Path(__file__).with_name("plain.py")
JOB, WORLD = "plain", 3
GIVEN_UP_SECONDS = 200.0
PAGES = ("hang", "desync")


@contextmanager
def trained(folder: Path, scenario: str) -> Iterator[subprocess.Popen[bytes]]:
    """Train below `folder` as `scenario` says, without stepwatch in the loop."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [sys.executable, "-m", "stepwatch.cli", "run", "--job", JOB, "--", *torchrun]
    words += [f"--nproc-per-node={WORLD}", str(PROGRAM), scenario]
    with open(folder / "train.log", "wb") as log:
        process = subprocess.Popen(words, env=environment(folder), stdout=log, stderr=log)
    try:
        yield process
    finally:
        end_ranks(folder)
        process.terminate()
        process.wait(60)


def incidents(folder: Path, scenario: str, until_kind: str = "") -> list[dict[str, Any]]:
    """Return the incidents of a run once one of a kind is open, or the run ends."""
    store = Store.sqlite(folder / "store.db")
    service = Service(store)
    with serving(make_api(service)) as url, trained(folder, scenario) as process:
        agent = Agent(AgentOptions(folder / "rings", folder / "spool", url, "n1", port=None))
        thread = threading.Thread(target=agent.run)
        thread.start()
        try:
            end = time.monotonic() + GIVEN_UP_SECONDS
            while time.monotonic() < end and process.poll() is None:
                service.evaluate()
                stored = store.incidents.newest(JOB)
                if any(incident["kind"] == until_kind for incident in stored):
                    break
                time.sleep(0.5)
        finally:
            agent.stop()
            thread.join(120)
        service.evaluate()
        return store.incidents.newest(JOB)


def test_one_back_off_of_a_client_is_no_page(tmp_path: Path) -> None:
    opened = incidents(tmp_path, "back-off")
    assert [incident for incident in opened if incident["kind"] in PAGES] == []
    assert {incident["rank"] for incident in opened} <= {1}


@pytest.mark.skipif(
    stack.find_py_spy() is None, reason="py-spy is not installed here: no line is known"
)
def test_an_uploader_that_never_ends_is_said_with_its_line(tmp_path: Path) -> None:
    opened = incidents(tmp_path, "uploader", "pause")
    (incident,) = [row for row in opened if row["kind"] == "pause"]
    assert (incident["rank"], incident["state"]) == (0, "open")
    assert "training is over, and rank 0 has not ended" in incident["summary"]
    assert "plain.py:" in incident["summary"] and "Uploader.finish" in incident["summary"]
    assert "the devices of 3 ranks idle" in incident["summary"]


def test_a_loop_without_marked_collectives_that_stops_is_a_ticket_and_then_a_page(
    tmp_path: Path,
) -> None:
    opened = incidents(tmp_path, "stops", "hang")
    assert [incident["rank"] for incident in opened if incident["kind"] == "hang"] == [1]
    assert [incident["rank"] for incident in opened if incident["kind"] == "pause"] == [1]
