"""Gathers for the telemetry detector."""

from __future__ import annotations

from stepwatch.collector.detect import telemetry
from stepwatch.collector.detect.finding import Finding

from .context import DetectionContext


def find(context: DetectionContext) -> list[Finding]:
    """Nodes that should send and are silent."""
    step = context.attempt.step_history.complete_until(context.attempt.world)
    return telemetry.detect(context.silences, step, telemetry.LIMITS)
