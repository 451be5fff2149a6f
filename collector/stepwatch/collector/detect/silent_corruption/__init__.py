"""Silent corruption: a replica whose parameters differ from the other replicas'.

Data-parallel replicas hold the same bits, and a flipped bit stays flipped: a part that differs in
two comparisons is proof. If more than two replicas have no majority, they are not meant to agree.
Differences by plan or by the code are no disputes (`state/trackers/replicas.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import NO_RANK, Finding, build_finding, text_evidence
from stepwatch.collector.detect.registry import Detector, When
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.collector.state.trackers.replicas import Comparison
from stepwatch.signals.names import Cause, FindingKind

RANKS_NAMED = 8


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for the majority."""

    majority_ratio: float = 0.5
    """Share: the replicas that must hold the same bits before the others count as wrong. With half
    on either side it is unknown which is right; more than two without a majority were never equal.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on replicas that differ from their peers; found until they agree again.

    From the first step with non-finite values, NaN explains any difference.
    """
    attempt = context.attempt
    disputes = attempt.tracker(Numerics).compare(attempt.collective_records.groups)
    bad = attempt.tracker(Numerics).bad
    if len(bad) and disputes:
        first = int(bad["step"].min())
        disputes = [dispute for dispute in disputes if dispute.first_step < first]
    findings = detect(disputes, context.thresholds(LIMITS))
    return [context.dated(finding) for finding in findings]


def detect(disputes: Iterable[Comparison], limits: Thresholds) -> list[Finding]:
    """Return one finding per wrong rank, from its first part that differs twice.

    With two replicas it is unknown which one is right: the finding names no rank.
    """
    findings: dict[tuple[int, str], Finding] = {}
    for dispute in sorted(disputes, key=lambda item: (item.first_step, item.part)):
        for rank in _wrong(dispute, limits):
            key = (rank, dispute.members if rank == NO_RANK else "")
            findings.setdefault(key, _finding(dispute, rank))
    return list(findings.values())


def _wrong(dispute: Comparison, limits: Thresholds) -> list[int]:
    if dispute.previous is None:
        return []
    if len(dispute.ranks) == 2:
        return [NO_RANK]
    previously = minority(dispute.previous, limits)
    return [rank for rank in minority(dispute, limits) if rank in previously]


def minority(dispute: Comparison, limits: Thresholds) -> list[int]:
    """Return the ranks whose bits differ from the majority; none without a majority."""
    values, counts = np.unique(dispute.digests, return_counts=True)
    most = int(np.argmax(counts))
    if counts[most] <= limits.majority_ratio * len(dispute.digests):
        return []
    wrong: list[int] = dispute.ranks[dispute.digests != values[most]].tolist()
    return wrong


def _finding(dispute: Comparison, rank: int) -> Finding:
    if rank == NO_RANK:
        named = " or ".join(str(number) for number in dispute.ranks[:RANKS_NAMED].tolist())
        subject = f"rank {named} holds"
        doubt = "; with no majority among them, which one is wrong is unknown"
    else:
        subject, doubt = f"rank {rank} holds", ""
    summary = (
        f"{subject} parameters that differ from its replicas' (ranks {dispute.members}) "
        f"since step {dispute.first_step}{doubt}. Nothing reported an error"
    )
    agreed = dispute.agreed_step
    before = (
        text_evidence("last step with equal digests", str(agreed) if agreed >= 0 else "unknown",
                      f"part {dispute.part}, first difference in step {dispute.first_step}"),
    )  # fmt: skip
    evidence = before + tuple(
        text_evidence(f"digest of part {dispute.part} on rank {replica}", f"{digest:016x}",
             f"the other replicas of ranks {dispute.members} in step {dispute.step}")
        for replica, digest in list(
            zip(dispute.ranks.tolist(), dispute.digests.tolist(), strict=True)
        )[:RANKS_NAMED]
    )  # fmt: skip
    return build_finding(
        kind=FindingKind.SILENT_CORRUPTION,
        rank=rank,
        phase="optimizer",
        cause=Cause.REPLICA_MISMATCH,
        summary=summary,
        began_step=dispute.first_step,
        evidence=evidence,
        subject=f"ranks {dispute.members}" if rank == NO_RANK else "",
    )


DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.SILENT_CORRUPTION}),
        when=When.ALWAYS,
        order=20,
        find=find,
    ),
)
