"""Attribution of a finding to faults that probes detected on its node. Pure.

Certain faults have precedence over measured facts: a fault of the rank's own device, or one that no
process survives. Other node faults count if no measured fact explains the finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from stepwatch.collector.detect.finding import Evidence, Finding, text_evidence
from stepwatch.collector.detect.node_fault.detector import action_of, severity_of, title
from stepwatch.collector.incidents.attribution import OPEN_CAUSES
from stepwatch.collector.incidents.rank_places import RankPlaces, is_of_card
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals import exits
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.node_facts.actions import ACTIONS
from stepwatch.signals.node_facts.catalogue import CATALOGUE, Severity
from stepwatch.signals.records import NodeFact

EXPLAINABLE = OPEN_CAUSES | {
    Cause.PROCESS_GONE,
    Cause.EXCEPTION,
    Cause.UNINTERRUPTIBLE_IO,
    Cause.BUSY,
}
"""Causes that describe a rank's failure, but not the reason."""
SAID = frozenset(pattern.cause for pattern in exits.CATALOGUE)
"""Causes from a rank's own last lines: certain node faults have precedence over them."""
_ORDER = (Severity.FATAL, Severity.DEGRADED, Severity.EVIDENCE)


def of_this_run(faults: Iterable[NodeFault], began_ns: Mapping[str, int]) -> list[NodeFault]:
    """Return the faults, except events on a node before the run began there.

    Faults of the run's own ranks always count. `began_ns` is when each node's first rank began,
    monotonic there. An XID error that ended the previous job does not explain this one; a device
    that is lost since then does.
    """
    return [
        fault
        for fault in faults
        if fault.rank >= 0
        or not CATALOGUE[fault.fact].is_event
        or not fault.newest_ns
        or fault.newest_ns >= began_ns.get(fault.node, 0)
    ]


def with_certain(finding: Finding, faults: Iterable[NodeFault], places: RankPlaces) -> Finding:
    """Return `finding` with the cause from a fault of its rank, or a fatal one of its node."""
    words = SAID if finding.kind is FindingKind.RANK_FAILED else frozenset()
    certain = [
        fault
        for fault in _explaining(finding, faults, places, EXPLAINABLE | words)
        if _is_certain(fault, finding, places)
    ]
    return _because(finding, certain, places)


def with_likely(finding: Finding, faults: Iterable[NodeFault], places: RankPlaces) -> Finding:
    """Return `finding` with the cause from any fault of its node, if it has none yet."""
    return _because(finding, _explaining(finding, faults, places, EXPLAINABLE), places)


def _explaining(
    finding: Finding,
    faults: Iterable[NodeFault],
    places: RankPlaces,
    open_causes: Set[Cause],
) -> list[NodeFault]:
    """Return faults that may explain a finding, the likeliest first."""
    if finding.cause not in open_causes:
        return []
    candidates = [
        fault
        for fault in faults
        if finding.kind in CATALOGUE[fault.fact].explains and _is_there(fault, finding, places)
    ]
    return sorted(candidates, key=lambda fault: _likelihood(fault, finding, places))


def _is_certain(fault: NodeFault, finding: Finding, places: RankPlaces) -> bool:
    """Return whether a fault has precedence over measured facts.

    It does if it is in the rank's own parts, or if no process on its node survives it.
    """
    if _of_rank(fault, finding, places):
        return CATALOGUE[fault.fact].certain
    elsewhere = is_of_card(fault) and finding.rank in places.cards_of
    return severity_of(fault) is Severity.FATAL and not elsewhere


def _is_there(fault: NodeFault, finding: Finding, places: RankPlaces) -> bool:
    """Return whether a fault is at the finding's place: its rank, or its node and no other rank.

    A finding without a place may be about any node, but mere evidence does not explain it. A
    process that is no rank of the job explains nothing: it belongs to another job, or to an earlier
    attempt.
    """
    if fault.rank < 0 and CATALOGUE[fault.fact].is_of_process:
        return False
    node = finding.node or places.node(finding.rank)
    if finding.rank >= 0:
        if fault.rank >= 0 or fault.node != node:
            return fault.rank == finding.rank
        return not is_of_card(fault) or places.uses(finding.rank, fault) is not False
    return fault.node == node if node else severity_of(fault) is not Severity.EVIDENCE


def _likelihood(
    fault: NodeFault, finding: Finding, places: RankPlaces
) -> tuple[bool, int, float, str]:
    order = _ORDER.index(severity_of(fault))
    return not _of_rank(fault, finding, places), order, -fault.began_s, fault.subject


def _of_rank(fault: NodeFault, finding: Finding, places: RankPlaces) -> bool:
    """Return whether a fault is in the rank's own process, device or card."""
    if fault.rank < 0 and is_of_card(fault):
        return fault.node == places.node(finding.rank) and bool(places.uses(finding.rank, fault))
    return 0 <= fault.rank == finding.rank


def _because(finding: Finding, causes: list[NodeFault], places: RankPlaces) -> Finding:
    if not causes or _evidence(causes[0]) in finding.evidence:
        return finding
    first = causes[0]
    return finding._replace(
        cause=CATALOGUE[first.fact].cause,
        summary=f"{finding.summary}, because {_words(first, finding, places)}",
        node=finding.node or ("" if finding.rank >= 0 else first.node),
        evidence=(*finding.evidence, *(_evidence(fault) for fault in causes[:3])),
    )


def _words(fault: NodeFault, finding: Finding, places: RankPlaces) -> str:
    words = CATALOGUE[fault.fact].words
    if fault.fact is NodeFact.XID:
        words = f"{words}: {title(fault)}"
    if finding.rank < 0:
        node = f"node {fault.node}"
        replacement = ("its node", node) if "its node" in words else ("its", f"{node}'s")
        words = words.replace(*replacement, 1)
    card = places.words(finding.rank, fault) if finding.rank >= 0 else ""
    return f"{words} ({fault.subject}{card})"


def _evidence(fault: NodeFault) -> Evidence:
    name = f"{title(fault)} of {fault.subject} on {fault.node}"
    return text_evidence(name, fault.text, ACTIONS[action_of(fault)])
