"""Two ranks train and are traced by `stepwatch agent`: one tree per rank and step, in one trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the ranks train with torch")
pytest.importorskip("opentelemetry.sdk", reason="traces need the extra `traces`")

from stepwatch.signals import traces
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind
from tests.hooks.conftest import LAUNCHER
from tests.ports import free_port
from tests.waiting import until

from .receiver import Received, Receiver, receiver

RANKS, STEPS, SLOW, INFINITE, SAVED, EVERY = 2, 40, 30, 12, 25, 16
PROGRAM = f"""
import time, torch
import torch.distributed as dist
from stepwatch.hooks import Watch

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = torch.nn.Linear(64, 64)
watch = Watch.from_env(job="traced")
for number in range({STEPS}):
    with watch.step(tokens=8) as step:
        with step.phase("forward"):
            loss = model(torch.ones(8, 64)).square().mean()
            time.sleep(1.0 if number == {SLOW} and rank == 1 else 0.05)
        with step.phase("backward"):
            loss.backward()
            for parameter in model.parameters():
                with watch.collective("all_reduce", nbytes=parameter.grad.nbytes):
                    dist.all_reduce(parameter.grad)
        with step.phase("optimizer"), torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
        step.record(loss=float("inf") if number == {INFINITE} and rank == 1 else loss)
    if number == {SAVED} and rank == 0:
        with watch.checkpoint(number) as saved:
            time.sleep(0.02)
        saved.written(nbytes=1000, durable_seconds=0.5)
        saved.verified()
watch.finish()
watch.close()
dist.destroy_process_group()
"""


def environment(folder: Path) -> dict[str, str]:
    """A user's environment: nothing of a launcher, nothing of another exporter."""
    outer = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCHER and not name.startswith(("STEPWATCH_", "OTEL_"))
    }
    paths = os.pathsep.join(filter(None, sys.path))
    ring_dir = str(folder / "rings")
    return {**outer, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "STEPWATCH_RING_DIR": ring_dir}


@contextmanager
def agent(folder: Path, url: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real agent whose collector is away; it ends as systemd would end it."""
    words = [
        sys.executable, "-m", "stepwatch.cli", "agent", "--otlp", url, "--node", "node-1",
        "--trace-every", str(EVERY), "--collector", f"http://127.0.0.1:{free_port()}",
        "--spool", str(folder / name), "--port", "0", "--flush-seconds", "0.25",
    ]  # fmt: skip
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(words, env=environment(folder), stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0, (folder / f"{name}.log").read_text()
    finally:
        process.kill()
        process.wait()


def train(folder: Path) -> None:
    program = folder / "train.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    ended = subprocess.run(
        [*words, f"--nproc-per-node={RANKS}", str(program)],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]


def wait_for(endpoint: Receiver, name: str, count: int) -> None:
    """Wait until `count` spans of that name came."""

    def arrived() -> bool:
        return len([item for item in list(endpoint.taken) if item.span.name == name]) >= count

    until(f"{count} spans {name!r}", arrived)


@pytest.mark.long(
    "tests/agent/traces/test_spans.py::test_the_same_records_make_the_same_spans",
    "tests/agent/traces/test_export.py::test_spans_arrive_as_they_were_made",
    "tests/agent/traces/test_sampling.py::test_all_ranks_keep_the_same_steps",
)
def test_a_real_run_becomes_trees_and_a_second_agent_sends_the_same_ids(tmp_path: Path) -> None:
    with receiver() as first, agent(tmp_path, first.url, "first"):
        train(tmp_path)
        wait_for(first, "checkpoint.verified", 1)
        wait_for(first, "step", RANKS * 4)
    check_trees(first.taken)
    check_choice(first.taken)
    check_lengths(first.taken, tmp_path / "rings")

    with receiver() as second, agent(tmp_path, second.url, "second"):
        wait_for(second, "checkpoint.verified", 1)
        wait_for(second, "step", RANKS * 4)
    check_trees(second.taken)
    second_by_key = {item.key: item for item in second.taken}
    sure = [item for item in first.taken if is_sure(item)]
    assert len(sure) > 20
    for item in sure:
        assert second_by_key[item.key].span.name == item.span.name
        assert second_by_key[item.key].seconds == item.seconds


def is_sure(item: Received) -> bool:
    """Whether it is sent whatever else the machine did: anomalous by its own record, or sampled."""
    number: int = item.attributes[traces.STEP]
    return number % EVERY == 0 or (number, item.attributes[traces.RANK]) == (INFINITE, 1)


def check_trees(received: list[Received]) -> None:
    """Ids are single, parents came, and every id is the one that anybody can compute."""
    by_key = {item.key: item for item in received}
    assert len(by_key) == len(received)
    for item in received:
        number, rank = item.attributes[traces.STEP], item.attributes[traces.RANK]
        trace = traces.trace_id("traced", 0, number).to_bytes(16, "big")
        assert item.span.trace_id == trace
        if item.span.parent_span_id:
            parent = by_key[trace, item.span.parent_span_id]
            assert parent.attributes[traces.RANK] == rank
        if item.span.name == "step":
            root = traces.span_id("traced", 0, number, rank, "step").to_bytes(8, "big")
            assert (item.span.span_id, item.span.parent_span_id) == (root, b"")
        assert item.resource["service.name"] == item.resource["stepwatch.job"] == "traced"
        assert (item.resource["host.name"], item.resource["stepwatch.attempt"]) == ("node-1", 0)


def check_choice(received: list[Received]) -> None:
    """Anomalous steps and sampled ones are there on the ranks that they are anomalous on."""
    roots = [item.attributes for item in received if item.span.name == "step"]
    reasons = {(root[traces.STEP], root[traces.RANK]): root[traces.REASONS] for root in roots}
    for rank in range(RANKS):
        assert "first" in reasons[0, rank]
        assert "slow" in reasons[SLOW, rank], "the other rank waits, and is as slow"
        for number in range(0, STEPS, EVERY):
            assert "sampled" in reasons[number, rank]
    assert "non-finite" in reasons[INFINITE, 1]
    assert "non-finite" not in reasons.get((INFINITE, 0), ())
    names = [item.span.name for item in received]
    assert names.count("startup") == RANKS
    for name in ("checkpoint", "checkpoint.durable", "checkpoint.verified"):
        assert names.count(name) == 1, name


def check_lengths(received: list[Received], rings: Path) -> None:
    """Spans last as long as the ranks' own records say, and lie where the clock says."""
    for path in find_rings(rings):
        reader = RingReader(path)
        rank, rows = reader.identity.rank, reader.read().rows
        reader.close()
        steps = {int(row["step"]): row for row in rows[Kind.STEP]}
        rank_spans = [item for item in received if item.attributes[traces.RANK] == rank]
        for root in (item for item in rank_spans if item.span.name == "step"):
            row = steps[root.attributes[traces.STEP]]
            below = {
                item.span.name: item.seconds
                for item in rank_spans
                if item.span.parent_span_id == root.span.span_id
            }
            assert root.seconds == pytest.approx(row["duration_ns"] / 1e9, abs=1e-6)
            assert sum(below.values()) == pytest.approx(root.seconds, abs=1e-6)
            for name, field in (("forward", "forward_ns"), ("collectives", "collective_ns")):
                assert below[name] == pytest.approx(row[field] / 1e9, abs=1e-6)
        check_reductions(rank_spans, rows[Kind.COLLECTIVE])


def check_reductions(
    rank_spans: list[Received], rows: np.ndarray[tuple[int], np.dtype[np.void]]
) -> None:
    """Each step's all-reduces are one span below the time that the rank was blocked."""
    by_step = {int(row["step"]): row for row in rows}
    spans = [item for item in rank_spans if item.span.name == "all_reduce"]
    assert len(spans) == sum(item.span.name == "step" for item in rank_spans)
    for item in spans:
        row = by_step[item.attributes[traces.STEP]]
        assert item.attributes[traces.COUNT] == row["count"] == 2
        assert item.attributes[traces.COLLECTIVE_BYTES] == row["bytes"]
        assert item.seconds == pytest.approx(row["exposed_ns"] / 1e9, abs=1e-6)
        (arrival,) = item.span.events
        assert arrival.name == "first arrival"
