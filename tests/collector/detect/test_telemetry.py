"""Stale nodes are named, and only where something should be received."""

from __future__ import annotations

import pytest

from stepwatch.collector.detect import telemetry
from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.detect.telemetry import detect

LIMITS = telemetry.LIMITS
LONG = LIMITS.least_seconds


@pytest.mark.parametrize("staleness", [{}, {"a": 0.0}, {"a": LONG - 0.1, "b": -5.0}])
def test_no_stale_node_no_finding(staleness: dict[str, float]) -> None:
    assert detect(staleness, 7, LIMITS) == []


def test_all_agents_are_stale() -> None:
    (finding,) = detect({"a": LONG, "b": 2 * LONG}, 7, LIMITS)
    assert (finding.rank, finding.cause, finding.node) == (NO_RANK, "agents-stale", "")
    assert finding.began_ago_seconds == 2 * LONG
    assert "step known is 7" in finding.summary and "unknown" in finding.summary
    assert finding.lost_ratio != finding.lost_ratio, "what is lost is not known"


def test_one_node_of_three() -> None:
    (finding,) = detect({"a": 0.2, "b": 20.0, "c": 0.1}, 7, LIMITS)
    assert (finding.cause, finding.node) == ("node-stale", "b")
    assert "1 of 3 nodes (b)" in finding.summary


def test_many_nodes_are_not_all_listed() -> None:
    staleness = {f"node-{number:04}": 20.0 for number in range(5000)} | {"alive": 0.1}
    (finding,) = detect(staleness, 7, LIMITS)
    assert len(finding.summary) < 400 and len(finding.evidence) <= 8


def test_an_agent_that_sends_seldom_is_stale_later() -> None:
    staleness, every = {"a": 100.0, "b": 100.0}, {"a": 60.0}
    (finding,) = detect(staleness, 7, LIMITS, every)
    assert finding.node == "b"
    assert finding.evidence[0].against == "its agent sends every 1.00 s"
    (finding,) = detect({"a": 180.0}, 7, LIMITS, every)
    assert finding.evidence[0].against == "its agent sends every 60.00 s"
