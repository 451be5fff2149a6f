"""The agent's count of values that are not finite: what the collector finds, and nothing else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.agent.app import Agent
from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.non_finite import NonFinite
from stepwatch.collector.detect import non_finite
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.signals.names import NODE_RANK_NON_FINITE
from stepwatch.signals.records import LOSS_SCALED, SCALER_STEPS, Kind, NumericsSource, make_rows
from stepwatch.signals.wire import Rows
from tests.ports import free_port
from tests.waiting import until

from .conftest import Rank, Start, round_of

KEY = AttemptKey("job", 0)
LOSS, NORM, INPUT = NumericsSource.LOSS, NumericsSource.GRAD_NORM, NumericsSource.COLLECTIVE_INPUT
SCALED = INPUT | LOSS_SCALED


def counted(page: str) -> dict[str, float]:
    """What a page of metrics counts, by job."""
    return {
        sample.labels["job_name"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == NODE_RANK_NON_FINITE.name
    }


def shown(agent: Agent) -> dict[str, float]:
    return counted(generate_latest(agent.registry).decode())


def write(rank: Rank, step: int, source: int, nonfinite: int = 1) -> None:
    body = (source, nonfinite, 0, 0, 0, b"", 0, 0)
    rank.ring.write(Kind.NUMERICS, step, time.monotonic_ns(), *body)


def test_a_job_begins_at_zero_and_counts_what_its_ranks_held(
    tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    ranks = [Rank(tmp_path / "rings", rank, job=job) for job in "ab" for rank in range(2)]
    agent = make_agent()
    assert shown(agent) == {}
    round_of(agent)
    assert shown(agent) == {"a": 0, "b": 0}
    for rank in ranks[:2]:
        rank.steps(1)
        write(rank, 1, LOSS)
        write(rank, 1, INPUT, 12)
    write(ranks[2], 1, NumericsSource.PARAMETERS, 0)
    round_of(agent)
    round_of(agent)
    assert shown(agent) == {"a": 4, "b": 0}
    for rank in ranks:
        rank.ring.close()
    for _ in range(10):
        round_of(agent)
    assert shown(agent) == {}, "the ranks ended"
    second_rank = Rank(tmp_path / "rings", 5, job="a")
    write(second_rank, 1, NORM)
    round_of(agent)
    assert shown(agent) == {"a": 5}
    second_rank.ring.close()


def test_steps_that_a_loss_scaler_leaves_out_do_not_count(
    rank: Rank, make_agent: Callable[..., Agent]
) -> None:
    agent = make_agent()
    for step in (3, 4, 9, *range(20, 20 + SCALER_STEPS)):
        write(rank, step, SCALED)
        write(rank, step, NORM | LOSS_SCALED)
    round_of(agent)
    assert shown(agent) == {"job": 0}
    write(rank, 20 + SCALER_STEPS, SCALED)
    round_of(agent)
    assert shown(agent) == {"job": 1}, "below a scale of one no scaler helps"


def test_an_agent_that_restarts_counts_nothing_again(
    rank: Rank, make_agent: Callable[..., Agent]
) -> None:
    agent = make_agent()
    write(rank, 1, LOSS)
    round_of(agent)
    assert shown(agent) == {"job": 1}
    agent.close()
    agent = make_agent()
    round_of(agent)
    assert shown(agent) == {"job": 0}
    write(rank, 2, LOSS)
    round_of(agent)
    assert shown(agent) == {"job": 1}


def test_what_cannot_be_spooled_counts_once(
    rank: Rank, make_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent()
    write(rank, 1, LOSS)
    with monkeypatch.context() as patch:
        patch.setattr(agent.spool, "put", _full)
        for _ in range(3):
            round_of(agent)
    assert shown(agent) == {"job": 0}
    round_of(agent)
    assert shown(agent) == {"job": 1}


def _full(*_: object) -> None:
    raise OSError("no space left on device")


_RUNS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, SCALER_STEPS + 8),
        st.sampled_from([SCALED, SCALED, NORM | LOSS_SCALED, NumericsSource.PARAMETERS, INPUT]),
        st.integers(0, 1),
        st.integers(0, 3),
    ),
    max_size=6,
)
"""First step, how many, source, value of `nonfinite`, rank."""


@given(_RUNS, st.integers(1, 40))
def test_it_counts_where_the_detector_finds(
    runs: list[tuple[int, int, int, int, int]], at_once: int
) -> None:
    facts = sorted(
        (step, source, bad, rank)
        for first, count, source, bad, rank in runs
        for step in range(first, first + count)
    )
    places = {"step": 0, "source": 1, "nonfinite": 2, "rank": 3}
    columns = {name: [fact[place] for fact in facts] for name, place in places.items()}
    rows = make_rows(Kind.NUMERICS, len(facts), **columns)
    numerics, counts = Numerics(), NonFinite()
    counts.follow([KEY])
    for part in _parts(rows, at_once):
        numerics.add(part, 4)
        counts.count(KEY, part)
        counts.follow([KEY])
    numerics_rows = np.concatenate([numerics.bad, numerics.scaled])
    findings = non_finite.detect(numerics_rows, 400, 400, non_finite.LIMITS, over=True)
    assert bool(counts.counts[KEY.job]) == bool(findings)


def _parts(rows: Rows, at_once: int) -> list[Rows]:
    """The rows in order, as flushes bring them."""
    return [rows[begin : begin + at_once] for begin in range(0, len(rows), at_once)]


RANK = """
import pathlib, sys, time
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
watch.start_at(1)
while True:
    with watch.step(tokens=64) as step:
        with step.phase("forward"):
            pass
        step.record(loss=float("nan") if pathlib.Path(sys.argv[1]).exists() else 1.0)
    time.sleep(0.1)
"""


def test_it_moves_on_real_ranks_and_without_a_collector(tmp_path: Path, start: Start) -> None:
    port, agent_port, broken = free_port(), free_port(), tmp_path / "broken"
    store = ("--store", str(tmp_path / "store.db"), "--port", str(port))
    collector = start("-m", "stepwatch.cli", "collector", *store)
    start(
        *("-m", "stepwatch.cli", "agent", "--collector", f"http://127.0.0.1:{port}"),
        *("--spool", str(tmp_path / "spool"), "--port", str(agent_port), "--node", "n1"),
    )
    for rank in range(2):
        start("-c", RANK, str(broken), RANK=str(rank), WORLD_SIZE="2", STEPWATCH_DISABLE="")

    def count() -> float | None:
        try:
            page = httpx.get(f"http://127.0.0.1:{agent_port}/metrics").text
        except httpx.TransportError:
            return None
        return counted(page).get("job")

    def metrics() -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/metrics").text
        except httpx.TransportError:
            return ""

    def steps() -> bool:
        running = re.search(r'^stepwatch_job_step{job_name="job"} (\d+)', metrics(), re.M)
        return running is not None and int(running[1]) > 3

    until("the job to make steps", steps)
    assert count() == 0
    broken.touch()
    until("the agent to count", count)
    until("the collector to find it", lambda: 'kind="non-finite"} 1.0' in metrics())
    collector.kill()
    collector.wait(10)
    assert metrics() == ""
    count_before = count()
    assert count_before
    until("the count to move without a collector", lambda: (count() or 0) > count_before)
