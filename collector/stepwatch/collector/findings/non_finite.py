"""Gathers for the non-finite detector."""

from __future__ import annotations

from stepwatch.collector.detect import non_finite
from stepwatch.collector.detect.finding import Finding

from .scene import Scene


def find(scene: Scene) -> list[Finding]:
    """The rank that first held NaN or infinity; told until the attempt ends."""
    attempt = scene.attempt
    if not len(attempt.numerics.bad):
        return []
    ledger = attempt.ledger
    newest = ledger.first + len(ledger) - 1
    over = bool(attempt.ended) or any(attempt.is_gone(rank) for rank in attempt.states)
    complete = ledger.complete_until(attempt.world)
    found = non_finite.detect(attempt.numerics.bad, complete, newest, non_finite.LIMITS, over=over)
    return [scene.dated(finding) for finding in found]
