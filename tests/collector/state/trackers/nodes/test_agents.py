"""How often an agent flushes is what it says of itself; who says nothing flushes every second."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.nodes.agents import (
    DEFAULT_FLUSH_SECONDS,
    UNKNOWN_NODE,
    Agents,
)
from stepwatch.signals.records import Kind, make_rows
from tests.collector.made import segment


def say(attempt: Attempt, node: str, flush_seconds: float) -> None:
    """Let the agent of a node say how often it flushes."""
    rows = make_rows(Kind.AGENT, 1, flush_seconds=flush_seconds)
    attempt.apply(segment(1, {Kind.AGENT: rows}, node=node), Received(1.0, 1.0))


@pytest.mark.parametrize(
    ("reported", "expected"), [(5.0, 5.0), (np.nan, 1.0), (0.0, 1.0), (-1.0, 1.0), (1e9, 1.0)]
)
def test_a_node_flushes_as_often_as_its_agent_says(reported: float, expected: float) -> None:
    assert DEFAULT_FLUSH_SECONDS == 1.0
    attempt = Attempt(0)
    say(attempt, "node-3", reported)
    assert attempt.tracker(Agents).flush_seconds("node-3") == expected
    assert attempt.tracker(Agents).flush_seconds("node-4") == 1.0


def test_a_node_is_stale_once_it_missed_three_flushes() -> None:
    attempt = Attempt(0)
    say(attempt, "slow", 20.0)
    say(attempt, "fast", 0.5)
    assert attempt.tracker(Agents).stale_after("slow", 3.0) == 60.0
    assert attempt.tracker(Agents).stale_after("fast", 3.0) == 3.0, "never sooner than the least"
    assert attempt.tracker(Agents).stale_after("says-nothing", 3.0) == 3.0
    assert attempt.tracker(Agents).stale_after(UNKNOWN_NODE, 15.0) == 60.0, (
        "it is taken to be like the slowest"
    )


def test_an_agent_that_says_nothing_any_more_is_as_it_was_at_first() -> None:
    attempt = Attempt(0)
    say(attempt, "node-3", 5.0)
    say(attempt, "node-3", np.nan)
    assert attempt.tracker(Agents).flush_seconds("node-3") == DEFAULT_FLUSH_SECONDS
