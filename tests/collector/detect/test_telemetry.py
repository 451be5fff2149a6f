"""Silence is named per node, and only where something should be heard."""

from __future__ import annotations

import pytest

from stepwatch.collector.detect import telemetry
from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.detect.telemetry import detect

LIMITS = telemetry.LIMITS
LONG = LIMITS.least_seconds


@pytest.mark.parametrize("silences", [{}, {"a": 0.0}, {"a": LONG - 0.1, "b": -5.0}])
def test_no_silence_no_finding(silences: dict[str, float]) -> None:
    assert detect(silences, 7, LIMITS) == []


def test_all_agents_silent() -> None:
    (finding,) = detect({"a": LONG, "b": 2 * LONG}, 7, LIMITS)
    assert (finding.rank, finding.cause, finding.node) == (NO_RANK, "agents-silent", "")
    assert finding.began_ago_seconds == 2 * LONG
    assert "step known is 7" in finding.summary and "unknown" in finding.summary
    assert finding.lost_ratio != finding.lost_ratio, "what is lost is not known"


def test_one_node_of_three() -> None:
    (finding,) = detect({"a": 0.2, "b": 20.0, "c": 0.1}, 7, LIMITS)
    assert (finding.cause, finding.node) == ("node-silent", "b")
    assert "1 of 3 nodes (b)" in finding.summary


def test_many_nodes_are_not_all_listed() -> None:
    silences = {f"node-{number:04}": 20.0 for number in range(5000)} | {"alive": 0.1}
    (finding,) = detect(silences, 7, LIMITS)
    assert len(finding.summary) < 400 and len(finding.evidence) <= 8
