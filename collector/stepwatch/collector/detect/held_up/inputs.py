"""Inputs for the held-up detector."""

from __future__ import annotations

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.straggler.costly import costly_ranks
from stepwatch.collector.detect.straggler.inputs import evidence_of
from stepwatch.collector.detect.straggler.thresholds import LIMITS as STRAGGLER

from . import detector

_OF_ONE_RANK = 0.5
"""A slow rank explains the loss in turns if it costs at least this share of it."""


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a job that is held up occasionally, by no rank alone."""
    course, stage = context.course, context.window.stage
    if course is None or not context.compares_ranks or not course.times.any():
        return []
    limits = context.thresholds(detector.LIMITS)
    log_over = context.thresholds(STRAGGLER).least_log_over
    findings = detector.detect(course, stage, limits, log_over)
    if any(finding.subject == detector.IN_TURNS for finding in findings):
        most = _costliest(context)
        findings = [
            finding
            for finding in findings
            if finding.subject != detector.IN_TURNS or most < _OF_ONE_RANK * finding.lost_ratio
        ]
    return [context.dated(finding) for finding in findings]


def _costliest(context: DetectionContext) -> float:
    """Return the costliest slow rank's share of the time; 0 if there is none."""
    evidence = evidence_of(context)
    if evidence is None:
        return 0.0
    costly = costly_ranks(
        evidence, context.window.stage, context.thresholds(STRAGGLER), context.course
    )
    return max((rank.lost.share for rank in costly), default=0.0)
