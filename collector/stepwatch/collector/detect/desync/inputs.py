"""Inputs for the desync detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect import hang, rank_failed
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.signals.records import phase_name

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks that disagree in a job without progress."""
    stall = context.once(hang.stalled)
    if stall is None:
        return []
    lines, details = entered(context.attempt), stall.diagnostics
    mismatch = detector.from_flight(details.diagnoses) or detector.from_lines(lines, details.groups)
    if mismatch is None:
        circle = detector.from_cycle(stall.answer.cycle, lines, stall.seconds)
        return [] if circle is None else [circle]
    return _mismatch_findings(mismatch, lines, stall.seconds)


def find_failure(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks that disagreed before the attempt failed."""
    failed = context.once(rank_failed.find)
    if not failed:
        return []
    lines = entered(context.attempt)
    mismatch = detector.from_lines(lines, hang.rank_diagnostics(context.attempt).groups)
    return _mismatch_findings(mismatch, lines, failed[0].began_ago_seconds)


def _mismatch_findings(
    mismatch: detector.Mismatch | None, lines: list[detector.Entered], ago: float
) -> list[Finding]:
    """Return the findings on `mismatch`, which began `ago` seconds ago."""
    if mismatch is None:
        return []
    return [detector.finding(mismatch, lines, ago)]


def entered(attempt: Attempt) -> list[detector.Entered]:
    """Return each rank's newest collective; its line stays when the collective or the rank ends."""
    ranks = np.flatnonzero(attempt.ranks.reported)
    rows = attempt.ranks.rows[ranks]
    columns = (rows[name].tolist() for name in _COLUMNS)
    return [
        detector.Entered(
            rank=rank,
            step=step,
            phase=phase_name(phase),
            group=group,
            op=op,
            number=number,
            nbytes=nbytes,
        )
        for rank, step, phase, group, op, number, nbytes in zip(
            ranks.tolist(), *columns, strict=True
        )
    ]


_COLUMNS = (
    "step",
    "phase",
    "collective_group",
    "collective_op",
    "collectives_entered",
    "collective_bytes",
)
