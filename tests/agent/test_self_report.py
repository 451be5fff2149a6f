"""Every segment carries what the agent reports of itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.signals.records import UNKNOWN_RANK, Kind
from tests.agent.conftest import Rank, round_of, spooled


@pytest.mark.parametrize(
    ("flush", "poll", "effective"), [(1.0, 0.25, 1.0), (0.01, 0.25, 0.25), (0.6, 0.25, 0.5)]
)
def test_the_interval_is_the_one_that_the_agent_keeps(
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    flush: float,
    poll: float,
    effective: float,
) -> None:
    rank = Rank(tmp_path / "rings")
    agent = make_agent(flush_seconds=flush, poll_seconds=poll)
    round_of(agent)
    (row,) = spooled(agent)[0][Kind.AGENT]
    assert (row["rank"], row["poll_seconds"]) == (UNKNOWN_RANK, poll)
    assert row["flush_seconds"] == effective
    assert row["version"].decode()[0].isdigit()
    rank.ring.close()


def test_the_state_of_the_spool_is_reported(
    tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    rank = Rank(tmp_path / "rings", capacity=4096)
    agent = make_agent(spool_limit_bytes=20_000)
    for _ in range(60):
        rank.steps(40)
        round_of(agent)
    first, *_, last = (tables[Kind.AGENT][0] for tables in spooled(agent) if Kind.AGENT in tables)
    assert first["dropped_segments"] < last["dropped_segments"] <= agent.spool.dropped
    assert 0 < last["spool_bytes"] <= 20_000 and last["held_segments"] == 0
    rank.ring.close()
