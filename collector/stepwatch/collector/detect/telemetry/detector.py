"""Telemetry lost: a node of a job that should send is stale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from stepwatch.collector.detect.finding import (
    Confidence,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.trackers.nodes.agents import DEFAULT_FLUSH_SECONDS, UNKNOWN_NODE
from stepwatch.signals.blackbox.layout import DEFAULT_CAPACITY, HEADER_SIZE, SLOT_SIZE
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import do_text, ranks_text

NODES_NAMED = 8
RING_BYTES = HEADER_SIZE + DEFAULT_CAPACITY * SLOT_SIZE
"""Default size of a rank's ring, in bytes."""


class ReportingNodes(NamedTuple):
    """The facts from nodes that report; they show nothing about the `unobserved` ranks.

    `still_seconds` is how long the observed ranks have made no progress, None while they progress.
    `proven` is whether they complete collectives with the unobserved ranks. `ended` ranks are known
    to have ended, `never` ranks never reported. `ring_free_bytes` is the ring space on nodes whose
    agents report it.
    """

    unobserved: tuple[int, ...] = ()
    still_seconds: float | None = None
    proven: bool = False
    ended: tuple[int, ...] = ()
    never: tuple[int, ...] = ()
    ring_free_bytes: Mapping[str, int] = MappingProxyType({})

    @property
    def trains_without(self) -> bool:
        """Return whether the reporting ranks train although some ranks never reported."""
        return bool(self.never) and self.still_seconds is None and not self.ended


NOTHING_OBSERVED = ReportingNodes()


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for missing telemetry."""

    least_seconds: float = 15.0
    """Seconds: the time since a node's last segment after which its telemetry is missing."""
    least_flushes: float = 3.0
    """Flushes: the same in flush intervals of the node's agent. An agent may send only every
    minute.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


def detect(
    staleness: Mapping[str, float],
    step: int,
    limits: Thresholds,
    flush_seconds: Mapping[str, float] = MappingProxyType({}),
    reporting: ReportingNodes = NOTHING_OBSERVED,
) -> list[Finding]:
    """Return one finding if a node is stale for too long in a job that has not ended.

    `staleness` holds the seconds since each node was last received from, on the collector's clock.
    `step` is the newest known step over all ranks. `flush_seconds` is the flush interval of a
    node's agent, if reported. `reporting` holds the facts from the other nodes. Without known nodes
    there is no finding.
    """
    every = {node: flush_seconds.get(node, DEFAULT_FLUSH_SECONDS) for node in staleness}
    stale = {
        node: seconds
        for node, seconds in staleness.items()
        if seconds >= max(limits.least_seconds, limits.least_flushes * every[node])
    }
    if not stale:
        return []
    findings = []
    if UNKNOWN_NODE in stale and reporting.trains_without:
        findings.append(_not_watched(stale.pop(UNKNOWN_NODE), step, reporting))
        staleness = {node: age_s for node, age_s in staleness.items() if node != UNKNOWN_NODE}
    return findings + (_stale(stale, staleness, step, every, reporting) if stale else [])


def _not_watched(seconds: float, step: int, reporting: ReportingNodes) -> Finding:
    """Return the finding on ranks that never reported while others train, with the cause, once."""
    full = sorted(node for node, free in reporting.ring_free_bytes.items() if free < RING_BYTES)
    ranks_label = ranks_text(reporting.never)
    if full:
        why = f"the ring folder of node {', '.join(full[:NODES_NAMED])} has no room for a ring"
        cure = "make room there, or set STEPWATCH_RING_DIR to another folder"
    else:
        why = "no agent saw a ring of them"
        cure = "start an agent on their node; if one runs, the job's log has the reason"
    evidence = [
        Evidence(
            f"room for rings on node {node}",
            reporting.ring_free_bytes[node],
            "bytes",
            f"a ring takes {RING_BYTES}",
        )
        for node in full[:NODES_NAMED]
    ]
    return build_finding(
        kind=FindingKind.TELEMETRY_LOST,
        cause=Cause.NOT_WATCHED,
        summary=(
            f"{ranks_label} {'is' if len(reporting.never) == 1 else 'are'} not watched since the "
            f"start: {why}. The others train and are evaluated; before the next start, {cure}"
        ),
        began_step=step,
        began_ago_seconds=seconds,
        severity=seconds,
        evidence=(text_evidence(ranks_label, "never reported", "all ranks of the job"), *evidence),
        subject="not-watched",
        confidence=Confidence.CERTAIN,
    )


def _stale(
    stale: Mapping[str, float],
    staleness: Mapping[str, float],
    step: int,
    every: Mapping[str, float],
    reporting: ReportingNodes,
) -> list[Finding]:
    """Return the finding on nodes that no longer report, or on a job without any telemetry."""
    worst = max(stale.values())
    # A node whose ranks have all ended has nothing to send.
    is_whole_job = len(stale) == len(staleness) and not reporting.ended
    named = ", ".join(sorted(stale)[:NODES_NAMED])
    nodes = f"{len(stale)} of {len(staleness)}" if len(stale) < len(staleness) else f"{len(stale)}"
    senders = (
        "any agent" if is_whole_job else f"{nodes} node{'s' if nodes != '1' else ''} ({named})"
    )
    summary = (
        f"nothing was received from {senders} for {worst:.0f} s; {_newest_words(step)}. "
        f"{'Whether the job trains is unknown' if is_whole_job else _reporting_words(reporting)}"
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
            cause=Cause.AGENTS_STALE if is_whole_job else Cause.NODE_STALE,
            summary=summary,
            began_step=step,
            began_ago_seconds=worst,
            severity=worst,
            evidence=evidence,
            node=next(iter(stale)) if len(stale) == 1 else "",
            confidence=Confidence.CERTAIN,
        )
    ]


def _newest_words(step: int) -> str:
    return f"the newest step known is {step}" if step >= 0 else "no step is known yet"


def _reporting_words(reporting: ReportingNodes) -> str:
    """Return words on the reporting nodes' view of the job and of the unobserved ranks."""
    unseen, does = ranks_text(reporting.unobserved), do_text(reporting.unobserved)
    if reporting.ended:
        have = "has" if len(reporting.ended) == 1 else "have"
        return f"Of the job, {ranks_text(reporting.ended)} {have} ended; what {does} is unknown"
    lacking = "meanwhile the ranks that report are compared with each other alone"
    if reporting.still_seconds is not None:
        still = in_words(reporting.still_seconds)
        return f"The ranks that report have made no step for {still}; what {does} is unknown"
    if reporting.proven:
        return (
            f"The job trains: the other ranks report steps, and complete collectives with "
            f"{unseen}; {lacking}"
        )
    return (
        f"The other ranks report steps, so the job trains; whether {does} is unknown, and {lacking}"
    )
