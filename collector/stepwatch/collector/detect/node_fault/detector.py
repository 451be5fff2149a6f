"""Node fault: what probes found wrong, as findings of their own. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from stepwatch.collector.detect.finding import (
    Confidence,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import FindingKind
from stepwatch.signals.node_facts import ACTIONS, CATALOGUE, Action, Severity, xid_of
from stepwatch.signals.records import NodeFact
from stepwatch.signals.thresholds import load

_NODES_NAMED = 8
_ORDER = (Severity.FATAL, Severity.DEGRADED, Severity.EVIDENCE)


class Thresholds(NamedTuple):
    """When faults are one; see `thresholds.toml`."""

    together_nodes: int
    together_ratio: float
    most: int


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


SHARED_WORDS = "look for what they share before draining any"
"""What to do where many nodes have one fault at once."""


class Known(Protocol):
    """What says how bad a fact is."""

    @property
    def fact(self) -> NodeFact:
        """What was found."""
        ...

    @property
    def code(self) -> int:
        """The number of an XID error."""
        ...

    @property
    def text(self) -> str:
        """The line that shows it."""
        ...


class Fault(NamedTuple):
    """A fact that is present, since which step, and how long ago that was in seconds."""

    known: NodeFault
    since_step: int
    ago_seconds: float


def detect(faults: Iterable[Fault], nodes: int, limits: Thresholds = LIMITS) -> list[Finding]:
    """A finding for each fault, the worst first; one for all nodes that have the same at once.

    `nodes` is how many the job has. What is evidence only is no finding of its own.
    """
    by_fact: dict[tuple[NodeFact, int], list[Fault]] = defaultdict(list)
    for fault in faults:
        if severity_of(fault.known) is not Severity.EVIDENCE:
            by_fact[fault.known.fact, fault.known.code].append(fault)
    found: list[tuple[Severity, Finding]] = []
    for same in by_fact.values():
        there = {fault.known.node for fault in same}
        if is_together(len(there), nodes, limits):
            found.append((severity_of(same[0].known), _of_many(same, sorted(there), nodes)))
        else:
            found += [(severity_of(fault.known), _of_one(fault)) for fault in same]
    found.sort(key=lambda item: (_ORDER.index(item[0]), item[1].began_step, item[1].subject))
    return [finding for _, finding in found[: limits.most]]


def is_together(having: int, nodes: int, limits: Thresholds = LIMITS) -> bool:
    """Whether so many of `nodes` have one fault at once that it is none of their own."""
    return having >= max(limits.together_nodes, limits.together_ratio * nodes)


def severity_of(known: Known) -> Severity:
    """How bad a fact is by itself."""
    if known.fact is NodeFact.XID:
        return xid_of(known.code, known.text).severity
    return CATALOGUE[known.fact].severity


def title(known: Known) -> str:
    """A fact in few words."""
    if known.fact is NodeFact.XID:
        return xid_of(known.code, known.text).because
    return CATALOGUE[known.fact].name.replace("-", " ")


def action_of(known: Known) -> Action:
    """What to do about it."""
    if known.fact is NodeFact.XID:
        return xid_of(known.code, known.text).action
    return CATALOGUE[known.fact].action


def advice(known: NodeFault) -> list[Evidence]:
    """What each authority says to do about an XID error; they disagree, so all are shown."""
    if known.fact is not NodeFact.XID:
        return []
    return [
        text_evidence(f"advice of {each.authority} {each.version}", each.word, each.action.value)
        for each in xid_of(known.code, known.text).advice
    ]


def _of_one(fault: Fault) -> Finding:
    known = fault.known
    often = f", {known.times} times" if known.times > 1 else ""
    whose = f" of rank {known.rank}" if known.rank >= 0 else ""
    act, severity = action_of(known), severity_of(known)
    return build_finding(
        kind=FindingKind.NODE_FAULT,
        rank=known.rank,
        cause=CATALOGUE[known.fact].cause,
        summary=f"node {known.node}: {title(known)} ({known.subject}{whose}{often}); "
        f"{ACTIONS[act]}",
        began_step=fault.since_step,
        began_ago_seconds=fault.ago_seconds,
        severity=2.0 if severity is Severity.FATAL else 1.0,
        evidence=[
            text_evidence("found by a probe", known.text, CATALOGUE[known.fact].source),
            text_evidence("severity and action", f"{severity}, {act}", ACTIONS[act]),
            *advice(known),
        ],
        node=known.node,
        subject="/".join(
            [known.node, CATALOGUE[known.fact].name, known.subject, *_code(known.code)]
        ),
        confidence=Confidence.CERTAIN,
    )


def _of_many(same: list[Fault], there: list[str], nodes: int) -> Finding:
    first = min(same, key=lambda fault: fault.since_step)
    known = first.known
    named = ", ".join(there[:_NODES_NAMED]) + (" and others" if len(there) > _NODES_NAMED else "")
    return build_finding(
        kind=FindingKind.NODE_FAULT,
        cause=CATALOGUE[known.fact].cause,
        summary=f"{len(there)} of {nodes} nodes have {title(known)} at once ({named}): "
        f"{SHARED_WORDS}",
        began_step=first.since_step,
        began_ago_seconds=max(fault.ago_seconds for fault in same),
        severity=2.0,
        evidence=[
            text_evidence(
                f"found by a probe on {fault.known.node}",
                fault.known.text,
                CATALOGUE[known.fact].source,
            )
            for fault in same[:_NODES_NAMED]
        ],
        subject="/".join(["nodes", CATALOGUE[known.fact].name, *_code(known.code)]),
        confidence=Confidence.LIKELY,
    )


def _code(code: int) -> list[str]:
    return [str(code)] if code >= 0 else []
