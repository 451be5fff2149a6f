"""Telemetry lost: a node of a job that should send is stale."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.thresholds import load
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.trackers.agents import DEFAULT_FLUSH_SECONDS
from stepwatch.signals.names import Cause, FindingKind

NODES_NAMED = 8


class Thresholds(NamedTuple):
    """When telemetry is missing; see `thresholds.toml`."""

    least_seconds: float
    least_flushes: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


def detect(
    staleness: Mapping[str, float],
    step: int,
    limits: Thresholds,
    flush_seconds: Mapping[str, float] = MappingProxyType({}),
) -> list[Finding]:
    """One finding if a node of a job that has not ended is stale for too long.

    `staleness` holds the seconds since something was received from each node, on the collector's
    clock; `step` is the newest step known of all ranks; `flush_seconds` how often the agent of a
    node sends, where it reports that. No node known is no finding.
    """
    every = {node: flush_seconds.get(node, DEFAULT_FLUSH_SECONDS) for node in staleness}
    stale = {
        node: seconds
        for node, seconds in staleness.items()
        if seconds >= max(limits.least_seconds, limits.least_flushes * every[node])
    }
    if not stale:
        return []
    worst = max(stale.values())
    whole = len(stale) == len(staleness)
    named = ", ".join(sorted(stale)[:NODES_NAMED])
    who = "any agent" if whole else f"{len(stale)} of {len(staleness)} nodes ({named})"
    summary = (
        f"nothing was received from {who} for {worst:.0f} s; the newest step known is {step}. "
        "Whether the job trains is unknown"
    )
    evidence = tuple(
        Evidence(
            f"time since node {node} was last seen",
            stale[node],
            "seconds",
            f"its agent sends every {in_words(every[node])}",
        )
        for node in sorted(stale)[:NODES_NAMED]
    )
    return [
        build_finding(
            kind=FindingKind.TELEMETRY_LOST,
            cause=Cause.AGENTS_STALE if whole else Cause.NODE_STALE,
            summary=summary,
            began_step=step,
            began_ago_seconds=worst,
            severity=worst,
            evidence=evidence,
            node=next(iter(stale)) if len(stale) == 1 else "",
        )
    ]
