"""Inputs for the silent-corruption detector."""

from __future__ import annotations

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.trackers.numerics import Numerics

from . import detector


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
    findings = detector.detect(disputes, context.thresholds(detector.LIMITS))
    return [context.dated(finding) for finding in findings]
