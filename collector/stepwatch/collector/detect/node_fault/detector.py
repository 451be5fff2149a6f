"""Node fault: faults that probes detected, as separate findings. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stepwatch.collector.detect.finding import (
    Confidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import FindingKind
from stepwatch.signals.node_facts.actions import ACTIONS, Action
from stepwatch.signals.node_facts.catalogue import CATALOGUE, Severity
from stepwatch.signals.node_facts.xids import xid_of
from stepwatch.signals.records import NodeFact

_NODES_NAMED = 8
_ORDER = (Severity.FATAL, Severity.DEGRADED, Severity.EVIDENCE)


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for node faults."""

    together_nodes: int = 3
    """Nodes: a job's nodes do not break in the same way at once if they are this many and
    `together_ratio`. A shared component breaks, or the probe is wrong, and draining them all would
    end the job for nothing.
    """
    together_ratio: float = 0.5
    """Share: the job's nodes from which the same holds. NVSentinel has a circuit breaker at half of
    a cluster's nodes.
    """
    most: int = 32
    """Findings: the most per evaluation, the worst first. An operator reads no more."""


LIMITS = Thresholds()
"""The shipped thresholds."""


SHARED_WORDS = "look for their common part before draining any"
"""The action if many nodes have one fault at once."""


class FaultFact(Protocol):
    """The properties that determine a fact's severity."""

    @property
    def fact(self) -> NodeFact:
        """Return the detected fact."""
        ...

    @property
    def code(self) -> int:
        """Return the number of an XID error."""
        ...

    @property
    def text(self) -> str:
        """Return the line that shows it."""
        ...


class Fault(NamedTuple):
    """A present fault, the step since which it is present, and its age in seconds."""

    node_fault: NodeFault
    since_step: int
    ago_seconds: float


def detect(faults: Iterable[Fault], nodes: int, limits: Thresholds = LIMITS) -> list[Finding]:
    """Return a finding for each fault, the worst first; one for all nodes with the same fault.

    `nodes` is the job's node count. A fault that is only evidence is no separate finding.
    """
    by_fact: dict[tuple[NodeFact, int], list[Fault]] = defaultdict(list)
    for fault in faults:
        if severity_of(fault.node_fault) is not Severity.EVIDENCE:
            by_fact[fault.node_fault.fact, fault.node_fault.code].append(fault)
    ranked: list[tuple[Severity, Finding]] = []
    for alike in by_fact.values():
        nodes_hit = {fault.node_fault.node for fault in alike}
        if is_together(len(nodes_hit), nodes, limits):
            ranked.append(
                (severity_of(alike[0].node_fault), _of_many(alike, sorted(nodes_hit), nodes))
            )
        else:
            ranked += [(severity_of(fault.node_fault), _of_one(fault)) for fault in alike]
    ranked.sort(key=lambda item: (_ORDER.index(item[0]), item[1].began_step, item[1].subject))
    return [finding for _, finding in ranked[: limits.most]]


def is_together(having: int, nodes: int, limits: Thresholds = LIMITS) -> bool:
    """Return whether `having` of `nodes` nodes is enough for one common fault."""
    return having >= max(limits.together_nodes, limits.together_ratio * nodes)


def severity_of(fault: FaultFact) -> Severity:
    """Return a fact's own severity."""
    if fault.fact is NodeFact.XID:
        return xid_of(fault.code, fault.text).severity
    return CATALOGUE[fault.fact].severity


def title(fault: FaultFact) -> str:
    """Return a fact's short title."""
    if fault.fact is NodeFact.XID:
        return xid_of(fault.code, fault.text).because
    return CATALOGUE[fault.fact].name.replace("-", " ")


def action_of(fault: FaultFact) -> Action:
    """Return the recommended action for a fact."""
    if fault.fact is NodeFact.XID:
        return xid_of(fault.code, fault.text).action
    return CATALOGUE[fault.fact].action


def source_of(fault: FaultFact) -> str:
    """Return the document that a fact's severity and action come from."""
    if fault.fact is NodeFact.XID:
        return xid_of(fault.code, fault.text).source
    return CATALOGUE[fault.fact].source


def _of_one(fault: Fault) -> Finding:
    node_fault = fault.node_fault
    often = f", {node_fault.times} times" if node_fault.times > 1 else ""
    rank_label = f" of rank {node_fault.rank}" if node_fault.rank >= 0 else ""
    act, severity = action_of(node_fault), severity_of(node_fault)
    return build_finding(
        kind=FindingKind.NODE_FAULT,
        rank=node_fault.rank,
        cause=CATALOGUE[node_fault.fact].cause,
        summary=f"node {node_fault.node}: {title(node_fault)} ("
        f"{node_fault.subject}{rank_label}{often}); {ACTIONS[act]}",
        began_step=fault.since_step,
        began_ago_seconds=fault.ago_seconds,
        severity=2.0 if severity is Severity.FATAL else 1.0,
        evidence=[
            text_evidence("found by a probe", node_fault.text, source_of(node_fault)),
            text_evidence("severity and action", f"{severity}, {act}", ACTIONS[act]),
        ],
        node=node_fault.node,
        subject="/".join(
            [
                node_fault.node,
                CATALOGUE[node_fault.fact].name,
                node_fault.subject,
                *_code(node_fault.code),
            ]
        ),
        confidence=Confidence.CERTAIN,
    )


def _of_many(alike: list[Fault], nodes_hit: list[str], nodes: int) -> Finding:
    first = min(alike, key=lambda fault: fault.since_step)
    node_fault = first.node_fault
    named = ", ".join(nodes_hit[:_NODES_NAMED]) + (
        " and others" if len(nodes_hit) > _NODES_NAMED else ""
    )
    return build_finding(
        kind=FindingKind.NODE_FAULT,
        cause=CATALOGUE[node_fault.fact].cause,
        summary=f"{len(nodes_hit)} of {nodes} nodes have {title(node_fault)} at once ({named}): "
        f"{SHARED_WORDS}",
        began_step=first.since_step,
        began_ago_seconds=max(fault.ago_seconds for fault in alike),
        severity=2.0,
        evidence=[
            text_evidence(
                f"found by a probe on {fault.node_fault.node}",
                fault.node_fault.text,
                CATALOGUE[node_fault.fact].source,
            )
            for fault in alike[:_NODES_NAMED]
        ],
        subject="/".join(["nodes", CATALOGUE[node_fault.fact].name, *_code(node_fault.code)]),
        confidence=Confidence.LIKELY,
    )


def _code(code: int) -> list[str]:
    return [str(code)] if code >= 0 else []
