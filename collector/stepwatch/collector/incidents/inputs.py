"""Gathers node and rank facts over the time of each finding, and attributes it to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.attribution import attribute
from stepwatch.collector.incidents.node_causes import of_this_run, with_certain, with_likely
from stepwatch.collector.incidents.rank_places import RankPlaces
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.nodes.near_cards import NearCards
from stepwatch.collector.state.trackers.nodes.node_facts import NodeFacts
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import Cause

SPANS = (4.0, 8.0, 16.0, 60.0)
"""Averaging times in seconds: the shortest one that reaches back to the beginning is used."""


def attributed(
    attempt: Attempt, findings: list[Finding], faults: Sequence[NodeFault] = ()
) -> list[Finding]:
    """Return each finding on `attempt` with the cause from the facts over its time.

    `faults` are the current probe findings on its nodes.
    """
    faults = of_this_run(faults, attempt.tracker(LifecycleEvents).began_ns)
    nodes = attempt.ranks.node_of if findings else {}
    places = RankPlaces(nodes, attempt.tracker(NearCards).by_rank)
    findings = [with_certain(finding, faults, places) for finding in findings]
    found_ranks = frozenset(finding.rank for finding in findings if finding.rank >= 0)
    views = {
        span: attempt.tracker(NodeFacts).view(nodes, attempt.world, span)
        for span in {_span(finding) for finding in findings}
    }
    return [
        _likeliest(
            item, attribute(item, views[_span(item)], found_ranks - {item.rank}), faults, places
        )
        for item in findings
    ]


def _likeliest(
    finding: Finding, measured: Finding, faults: Sequence[NodeFault], places: RankPlaces
) -> Finding:
    """Return `measured` if a measured fact explains `finding`, else its attribution to a fault."""
    if measured.cause is not finding.cause or finding.cause is Cause.CPU_CONTENTION:
        return measured
    likely = with_likely(finding, faults, places)
    return measured if likely is finding else likely


def _span(finding: Finding) -> float:
    ago = finding.began_ago_seconds
    return SPANS[0] if math.isnan(ago) else next((s for s in SPANS if s >= ago), SPANS[-1])
