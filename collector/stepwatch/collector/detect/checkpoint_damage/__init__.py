"""Checkpoint damage: an agent read a checkpoint and found it damaged, and no newer one is good.

It has no threshold: the agent reports damage only when the files have settled, and a loss of a
good checkpoint only after two readings.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Confidence, Finding, build_finding, text_evidence
from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.signals.names import Cause, FindingKind

SUBJECT = "damaged"


def detect(checkpoints: Sequence[Checkpoint]) -> list[Finding]:
    """Return a finding on the newest damaged checkpoint, unless a newer one is good.

    `checkpoints` are a job's, in order.
    """
    good = None
    for item in reversed(checkpoints):
        good = good or (item if item.is_good else None)
        if item.is_damaged and not item.is_removed:
            return [] if good is not None else [_finding(item, _last_good(checkpoints))]
    return []


def _last_good(checkpoints: Sequence[Checkpoint]) -> int | None:
    return next((item.step for item in reversed(checkpoints) if item.is_good), None)


def _finding(item: Checkpoint, good: int | None) -> Finding:
    verb = "was good and is damaged now" if item.was_good else "is damaged"
    file = f"{item.file}: " if item.file else ""
    last = "no other is known to be good"
    if good is not None:
        last = f"the last good one is of step {good}"
    return build_finding(
        kind=FindingKind.CHECKPOINT_STALL,
        phase="checkpoint",
        # Bytes that changed while their file's time did not: the storage changed them.
        cause=Cause.STORAGE_FAULT if item.was_good else Cause.DAMAGED_FILES,
        summary=f"the checkpoint of step {item.step} {verb}: {file}{item.reason}; {last}",
        began_step=item.step,
        severity=0.0,
        lost_ratio=0.0,
        subject=SUBJECT,
        confidence=Confidence.CERTAIN,
        evidence=[
            text_evidence("damaged file", f"{file}{item.reason}", "it must verify"),
            text_evidence("path", item.path, "as the rank reported it"),
            text_evidence("last good checkpoint", last, "a resume needs one"),
        ],
    )


def find(context: DetectionContext) -> list[Finding]:
    """Return the finding on the job's checkpoints."""
    return detect([item for _, item in context.job.checkpoints()])


DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.CHECKPOINT_STALL}),
        when=When.LASTING,
        order=95,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
)
