"""Gathers for the silent-corruption detector."""

from __future__ import annotations

from stepwatch.collector.detect import silent_corruption
from stepwatch.collector.detect.finding import Finding

from .scene import Scene


def find(scene: Scene) -> list[Finding]:
    """Replicas that hold other bits than their peers; told until they agree again.

    From the first step with values that are not finite on, NaN explains what differs.
    """
    attempt = scene.attempt
    disputes = attempt.numerics.compare(attempt.calls.groups)
    bad = attempt.numerics.bad
    if len(bad) and disputes:
        first = int(bad["step"].min())
        disputes = [dispute for dispute in disputes if dispute.first_step < first]
    found = silent_corruption.detect(disputes, silent_corruption.LIMITS)
    return [scene.dated(finding) for finding in found]
