"""Replica drift: replicas that never held the same parameters, or made fewer updates.

A device's error breaks an agreement. Replicas that never agreed never exchanged their gradients or
started unequal, and a rank that skipped a step is one update behind with sound parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwatch.collector.detect.finding import (
    NO_RANK,
    Confidence,
    Evidence,
    Finding,
    build_finding,
)
from stepwatch.collector.state.trackers.replicas import Apart, Skip
from stepwatch.signals.names import Cause, FindingKind


def detect(
    apart: Iterable[Apart],
    skips: Iterable[Skip],
    skipped_steps: Mapping[tuple[int, int], int],
) -> list[Finding]:
    """Return a finding on each group whose replicas never agreed, and on each rank that skipped.

    A second step with different digests confirms that replicas never agreed: it follows at once.
    `skipped_steps` maps group and rank to the first step in which the rank took no part in the
    exchange of gradients, where the collective records show it.
    """
    never_agreed = [_never_agreed(item) for item in apart if item.step > item.first_step]
    behind = [
        _skipped(skip, skipped_steps.get((skip.group, skip.rank), skip.first_step))
        for skip in skips
    ]
    return never_agreed + behind


def _never_agreed(apart: Apart) -> Finding:
    since = f"since step {apart.first_step}, their first comparison"
    if apart.exchanges:
        cause = Cause.DIFFERENT_START
        summary = (
            f"replicas (ranks {apart.members}) differ {since}, although they exchange gradients: "
            "they started unequal, or one went wrong in the first steps"
        )
    else:
        cause = Cause.NO_GRADIENT_EXCHANGE
        summary = (
            f"replicas (ranks {apart.members}) never exchange gradients: each trains a model of "
            f"its own, and their parameters differ {since}. The usual reason is a forward past "
            "DistributedDataParallel (`model.module`)"
        )
    return build_finding(
        kind=FindingKind.REPLICA_DRIFT,
        rank=NO_RANK,
        phase="optimizer",
        cause=cause,
        summary=summary,
        began_step=apart.first_step,
        evidence=[
            Evidence(
                "optimizer steps after an exchange of gradients",
                apart.exchanges,
                "steps",
                f"until step {apart.step}, ranks {apart.members}",
            ),
            Evidence("steps with different digests", apart.comparisons, "steps", "of as many"),
        ],
        subject=f"ranks {apart.members}",
        confidence=Confidence.CERTAIN,
    )


def _skipped(skip: Skip, step: int) -> Finding:
    count = f"{skip.updates} step{'s' if skip.updates > 1 else ''}"
    return build_finding(
        kind=FindingKind.REPLICA_DRIFT,
        rank=skip.rank,
        phase="optimizer",
        cause=Cause.SKIPPED_STEPS,
        summary=(
            f"rank {skip.rank} skipped {count} since step {step}: it made {skip.updates} optimizer "
            f"step{'s' if skip.updates > 1 else ''} less than its replicas (ranks {skip.members}). "
            "Its parameters are theirs of an earlier step"
        ),
        began_step=step,
        evidence=[
            Evidence(
                "optimizer steps less than the replicas",
                skip.updates,
                "steps",
                f"equal digests in step {skip.agreed_step}"
                if skip.agreed_step >= 0
                else "no comparison before",
            )
        ],
        confidence=Confidence.CERTAIN,
    )
