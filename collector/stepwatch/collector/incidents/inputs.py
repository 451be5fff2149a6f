"""Gathers the facts of nodes and ranks over the time of each finding, and attributes it to them."""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.attribution import attribute
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.node_facts import NodeFacts

SPANS = (4.0, 8.0, 16.0, 60.0)
"""Seconds over which facts are averaged: the shortest that reaches back to the beginning."""


def attributed(attempt: Attempt, findings: list[Finding]) -> list[Finding]:
    """Each finding on `attempt` with the cause that the facts over its time give it."""
    nodes = attempt.ranks.node_of if findings else {}
    found_ranks = frozenset(finding.rank for finding in findings if finding.rank >= 0)
    views = {
        span: attempt.tracker(NodeFacts).view(nodes, attempt.world, span)
        for span in {_span(finding) for finding in findings}
    }
    return [attribute(item, views[_span(item)], found_ranks - {item.rank}) for item in findings]


def _span(finding: Finding) -> float:
    ago = finding.began_ago_seconds
    return SPANS[0] if math.isnan(ago) else next((s for s in SPANS if s >= ago), SPANS[-1])
