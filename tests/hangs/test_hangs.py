"""Three real Gloo ranks, a real agent and a real collector: the named rank, line and call.

Ranks that hang are forked. Torchrun starts those that end, because it ends the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.stalls import stack
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals.blackbox import RingReader, find_rings
from tests.agent.conftest import serving
from tests.ranks.forked import ForkedRanks
from tests.waiting import until

pytest.importorskip("torch", reason="the ranks train with torch")

WORLD, RANK = 3, 1
PROGRAM = Path(__file__).with_name("train.py")
Incident = dict[str, Any]


Trainer = Callable[[Path, str], AbstractContextManager[None]]
"""Trains below a folder with a fault while the context lasts."""


def environment(folder: Path) -> dict[str, str]:
    paths = os.pathsep.join(filter(None, sys.path))
    rings = {"STEPWATCH_RING_DIR": str(folder / "rings")}
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **rings}


@contextmanager
def under_torchrun(folder: Path, fault: str) -> Iterator[None]:
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words += [f"--nproc-per-node={WORLD}", str(PROGRAM), fault]
    with open(folder / "train.log", "wb") as log:
        process = subprocess.Popen(words, env=environment(folder), stdout=log, stderr=log)
    try:
        yield
    finally:
        end_ranks(folder)
        process.kill()
        process.wait()


@pytest.fixture
def forked(forked_ranks: ForkedRanks) -> Trainer:
    @contextmanager
    def train(folder: Path, fault: str) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            words = [str(PROGRAM), fault]
            ran = pool.submit(forked_ranks.run, words, WORLD, folder / "logs", environment(folder))

            def ended() -> bool:
                end_ranks(folder)
                return ran.done()

            try:
                yield
            finally:
                until("ranks to end", ended)

    return train


def end_ranks(folder: Path) -> None:
    for path in find_rings(folder / "rings"):
        reader = RingReader(path)
        _end(reader.identity.pid)
        reader.close()


def _end(pid: int) -> None:
    for number in (signal.SIGKILL, signal.SIGCONT):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def incident_of(folder: Path, fault: str, kinds: tuple[str, ...], trainer: Trainer) -> Incident:
    """Return the first incident of one of `kinds` with its evidence, once the agent has asked."""
    service = Service(Store.sqlite(folder / "store.db"))
    with serving(make_api(service)) as url, trainer(folder, fault):
        agent = Agent(AgentOptions(folder / "rings", folder / "spool", url, "n1", port=None))
        thread = threading.Thread(target=agent.run)
        thread.start()
        try:
            return until("an incident", lambda: incident_found(service, kinds), every=0.5)
        finally:
            agent.stop()
            thread.join(120)


def incident_found(service: Service, kinds: tuple[str, ...]) -> Incident | None:
    service.evaluate()
    job = service.job("hangs")
    for incident in job[1].open_incidents() if job is not None else ():
        has_stack_if_hung = incident.kind not in ("hang", "pause") or any(
            row["name"].startswith("Python line") for row in incident.evidence
        )
        if incident.kind in kinds and has_stack_if_hung:
            return incident.document()
    return None


needs_py_spy = pytest.mark.skipif(
    stack.find_py_spy() is None, reason="py-spy is not installed here: the agent reports it too"
)


@needs_py_spy
def test_a_rank_that_sleeps_is_a_ticket_with_its_line(tmp_path: Path, forked: Trainer) -> None:
    incident = incident_of(tmp_path, "sleep", ("pause", "hang"), forked)
    assert (incident["kind"], incident["rank"]) == ("pause", RANK)
    assert (incident["cause"], incident["phase"]) == ("not-arrived", "data")
    assert "in load_shard" in incident["summary"] and "train.py:" in incident["summary"]
    assert "2 of 3 ranks wait in all_reduce" in incident["summary"]


@needs_py_spy
@pytest.mark.parametrize(
    ("fault", "cause", "lock"),
    [
        ("gil", "interpreter-blocked", "held"),
        pytest.param("stop", "process-stopped", None, marks=pytest.mark.matrix),
    ],
)
def test_a_hang_names_the_rank_its_line_and_the_collective_it_did_not_enter(
    tmp_path: Path, forked: Trainer, fault: str, cause: str, lock: str | None
) -> None:
    incident = incident_of(tmp_path, fault, ("hang",), forked)
    assert (incident["rank"], incident["cause"], incident["phase"]) == (RANK, cause, "data")
    assert "in load_shard" in incident["summary"] and "train.py:" in incident["summary"]
    # Before step 12, every step entered an all-reduce and a broadcast.
    called = "all_reduce of group 0-2" if fault == "stop" else "all_reduce #25 of group 0-2"
    assert called in incident["summary"].replace("arrive in", "enter")
    texts = {row["name"]: row.get("text") for row in incident["evidence"]}
    assert "train.py:" in texts[f"Python line of rank {RANK}"]
    if lock is not None:
        assert texts["its interpreter lock"] == lock


def test_swapped_collectives_are_a_desync_and_the_odd_rank_is_named(
    tmp_path: Path, forked: Trainer
) -> None:
    incident = incident_of(tmp_path, "order", ("desync", "hang"), forked)
    assert (incident["kind"], incident["cause"]) == ("desync", "mismatched-order")
    assert incident["rank"] == RANK
    assert "rank 1 broadcast" in incident["summary"]
    assert "ranks 0, 2 all_reduce" in incident["summary"]


@pytest.mark.long(
    "tests/collector/runtime/test_crossed_groups.py::test_groups_of_the_same_ranks_are_told_apart_by_name",
    "tests/hangs/test_hangs.py::test_swapped_collectives_are_a_desync_and_the_odd_rank_is_named",
)
def test_groups_of_the_same_ranks_entered_in_crossed_order_are_a_circle(
    tmp_path: Path, forked: Trainer
) -> None:
    incident = incident_of(tmp_path, "crossed", ("desync", "hang"), forked)
    assert (incident["kind"], incident["cause"]) == ("desync", "mismatched-order")
    assert incident["rank"] == RANK
    assert "ranks 0, 2 wait in all_reduce of group 0-2 (name 1) for rank 1" in incident["summary"]
    assert "rank 1 waits in all_reduce of group 0-2 (name 2) for ranks 0, 2" in incident["summary"]


@pytest.mark.long(
    "tests/collector/runtime/test_uneven_inputs.py::test_steps_of_the_others_are_shown_and_a_slow_one_is_named",
)
def test_a_slow_rank_is_named_after_another_one_ran_out_of_data(
    tmp_path: Path, forked: Trainer
) -> None:
    incident = incident_of(tmp_path, "uneven", ("straggler",), forked)
    assert (incident["rank"], incident["phase"]) == (RANK, "forward")
    texts = {row["name"]: row.get("text") for row in incident["evidence"]}
    assert texts["ranks that are done"] == "rank 0"


@pytest.mark.long(
    "tests/collector/detect/test_checkpoint_stall.py::test_a_rank_that_always_saves_longer_than_its_peers_is_named",
)
def test_the_rank_that_others_wait_for_in_each_save_is_named_from_the_first_on(
    tmp_path: Path, forked: Trainer
) -> None:
    incident = incident_of(tmp_path, "save", ("checkpoint-stall",), forked)
    assert incident["rank"] == RANK
    assert "rank 1 takes 3.0 s in each of the newest 2 checkpoints" in incident["summary"]


@pytest.mark.matrix
def test_a_shape_mismatch_that_kills_the_run_names_the_odd_rank(tmp_path: Path) -> None:
    incident = incident_of(tmp_path, "shape", ("desync", "rank-failed"), under_torchrun)
    assert (incident["kind"], incident["cause"]) == ("desync", "mismatched-shape")
    assert incident["rank"] == RANK
    assert "rank 1 all_reduce of 2000 bytes" in incident["summary"]


@pytest.mark.parametrize(
    ("fault", "cause", "words"),
    [
        pytest.param(
            *("kill", "process-gone", "killed by SIGKILL"),
            marks=pytest.mark.long(
                "tests/hangs/test_hangs.py::test_the_first_rank_to_fail_is_named_although_all_are_gone",
                "tests/collector/detect/test_rank_failed.py::test_the_first_death_and_not_those_that_torchrun_ended",
            ),
        ),
        ("exception", "exception", "ValueError: shard 17 is empty"),
        pytest.param("exit", "process-gone", "exit code 3", marks=pytest.mark.matrix),
    ],
)
def test_the_first_rank_to_fail_is_named_although_all_are_gone(
    tmp_path: Path, fault: str, cause: str, words: str
) -> None:
    incident = incident_of(tmp_path, fault, ("rank-failed",), under_torchrun)
    assert (incident["rank"], incident["cause"]) == (RANK, cause)
    # An exception has left the phase before its rank ends.
    assert incident["since_step"] in (12, 13)
    assert incident["phase"] == ("data" if fault == "kill" else "other")
    assert words in incident["summary"]
