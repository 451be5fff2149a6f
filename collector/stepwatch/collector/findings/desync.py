"""Gathers for the desync detector."""

from __future__ import annotations

from stepwatch.collector.detect import desync
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.job import Attempt
from stepwatch.signals.records import phase_name

from . import hang, rank_failed
from .context import DetectionContext


def find(context: DetectionContext) -> list[Finding]:
    """Why a job stands still: ranks that disagree, else the rank that did not arrive."""
    standing = hang.find(context)
    if not standing:
        return []
    lines = entered(context.attempt)
    found = hang.asked(context.attempt)
    mismatch = desync.from_flight(found.diagnoses) or desync.from_lines(lines, found.groups)
    if mismatch is None:
        return standing
    return [desync.finding(mismatch, lines, standing[0].began_ago_seconds)]


def find_ended(context: DetectionContext) -> list[Finding]:
    """Why an attempt failed: ranks that disagreed, else the rank that failed first."""
    failed = rank_failed.find(context)
    if not failed:
        return []
    lines = entered(context.attempt)
    mismatch = desync.from_lines(lines, hang.asked(context.attempt).groups)
    if mismatch is None:
        return failed
    return [desync.finding(mismatch, lines, failed[0].began_ago_seconds)]


def entered(attempt: Attempt) -> list[desync.Entered]:
    """The newest collective of each rank; its line stays when the collective or the rank ends."""
    lines = []
    for rank, view in attempt.states.items():
        lines.append(
            desync.Entered(
                rank,
                int(view.row["step"]),
                phase_name(int(view.row["phase"])),
                int(view.row["collective_group"]),
                int(view.row["collective_op"]),
                int(view.row["collectives_entered"]),
                int(view.row["collective_bytes"]),
            )
        )
    return lines
