"""Gathers for the silent-corruption detector."""

from __future__ import annotations

from stepwatch.collector.detect import silent_corruption
from stepwatch.collector.detect.finding import Finding

from .context import DetectionContext


def find(context: DetectionContext) -> list[Finding]:
    """Replicas that hold other bits than their peers; told until they agree again.

    From the first step with values that are not finite on, NaN explains what differs.
    """
    attempt = context.attempt
    disputes = attempt.numerics.compare(attempt.collective_records.groups)
    bad = attempt.numerics.bad
    if len(bad) and disputes:
        first = int(bad["step"].min())
        disputes = [dispute for dispute in disputes if dispute.first_step < first]
    found = silent_corruption.detect(disputes, silent_corruption.LIMITS)
    return [context.dated(finding) for finding in found]
