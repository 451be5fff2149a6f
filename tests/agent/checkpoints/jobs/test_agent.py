"""The agent reads paths from rings, also of ranks that end, and sends what it found."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.checkpoints.jobs import CheckpointOptions
from stepwatch.cli.verbs.agent import _checkpoints
from stepwatch.signals.errors import UsageError
from stepwatch.signals.records import Kind, LifecycleEvent, Verification, piece_texts
from tests.agent.checkpoints.written import LAYOUTS, tensors
from tests.agent.conftest import Rank, collector, give_up, round_of, tables_in
from tests.waiting import until

from .conftest import QUICK

OPTIONS = CheckpointOptions(**QUICK)  # type: ignore[arg-type]
MakeAgent = Callable[..., Agent]


def report(rank: Rank, path: Path, step: int) -> None:
    """Write the path as hooks do."""
    for index, text in enumerate(piece_texts((str(path), ""))):
        rank.ring.write(
            *(Kind.LIFECYCLE, step, time.monotonic_ns()),
            *(LifecycleEvent.CHECKPOINT_PATH, index, text.encode()),
        )


def test_a_checkpoint_of_a_rank_that_ended_reaches_the_collector(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    rank = Rank(tmp_path / "rings")
    path = LAYOUTS["torch"](tmp_path, tensors("weights"))
    place = tmp_path / "store.db"
    with collector(place) as url:
        agent = make_agent(url, checkpoints=OPTIONS)
        rank.steps(3)
        report(rank, path, 40)
        rank.ring.close()

        def is_read() -> bool:
            round_of(agent)
            agent.relay.drain(give_up)
            return b'"state": "verified"' in b"".join(
                file.read_bytes() for file in (tmp_path / "spool/checkpoints").glob("*.json")
            )

        until("the checkpoint is read", is_read)
        round_of(agent)
        agent.relay.drain(give_up)
    tables = tables_in(place, "job")
    rows = [row for part in tables for row in part.get(Kind.VERIFICATION, ())]
    states = [(int(row["step"]), int(row["state"])) for row in rows]
    assert states == [(40, Verification.WAITING), (40, Verification.VERIFIED)]


def test_an_agent_without_the_option_reads_none(
    tmp_path: Path, make_agent: MakeAgent, rank: Rank
) -> None:
    agent = make_agent(checkpoints=None)
    report(rank, tmp_path / "a.pt", 40)
    round_of(agent)
    assert agent.checkpoints is None and not (tmp_path / "spool/checkpoints").exists()


def test_the_verbs_options() -> None:
    assert _checkpoints("off", 30.0) is None
    options = _checkpoints("1MB/s", 2.0)
    assert options is not None
    assert (options.rate, options.every_seconds) == (1e6, 2 * 86_400.0)
    for words in (("fast", 30.0), ("1MB/s", -1.0), ("1MB/s", float("nan"))):
        with pytest.raises(UsageError):
            _checkpoints(*words)
