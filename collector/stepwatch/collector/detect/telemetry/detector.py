"""Telemetry lost: a node of a job that should be sending is silent, and so we are blind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.thresholds import load
from stepwatch.signals.names import Cause, FindingKind

NODES_NAMED = 8
_AGAINST = "agents send every second"


class Thresholds(NamedTuple):
    """When we are blind; see `thresholds.toml`."""

    least_seconds: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


def detect(silences: Mapping[str, float], step: int, limits: Thresholds) -> list[Finding]:
    """One finding if a node of a job that has not ended was not heard for too long.

    `silences` holds the seconds since each node was heard, on the collector's clock; `step` is the
    newest step known of all ranks. No node known is no finding.
    """
    silent = {node: s for node, s in silences.items() if s >= limits.least_seconds}
    if not silent:
        return []
    worst = max(silent.values())
    whole = len(silent) == len(silences)
    named = ", ".join(sorted(silent)[:NODES_NAMED])
    who = "any agent" if whole else f"{len(silent)} of {len(silences)} nodes ({named})"
    summary = (
        f"nothing was received from {who} for {worst:.0f} s; the newest step known is {step}. "
        "Whether the job trains is unknown"
    )
    evidence = tuple(
        Evidence(f"seconds since node {node} was heard", silent[node], "seconds", _AGAINST)
        for node in sorted(silent)[:NODES_NAMED]
    )
    return [
        build_finding(
            kind=FindingKind.TELEMETRY_LOST,
            cause=Cause.AGENTS_SILENT if whole else Cause.NODE_SILENT,
            summary=summary,
            began_step=step,
            began_ago_seconds=worst,
            severity=worst,
            evidence=evidence,
            node=next(iter(silent)) if len(silent) == 1 else "",
        )
    ]
