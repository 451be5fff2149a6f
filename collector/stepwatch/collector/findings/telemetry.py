"""Gathers for the telemetry detector."""

from __future__ import annotations

from stepwatch.collector.detect import telemetry
from stepwatch.collector.detect.finding import Finding

from .scene import Scene


def find(scene: Scene) -> list[Finding]:
    """Nodes that should send and are silent."""
    step = scene.attempt.ledger.complete_until(scene.attempt.world)
    return telemetry.detect(scene.silences, step, telemetry.LIMITS)
