"""Telemetry lost: a job that should be sending is silent, and so we are blind."""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding
from stepwatch.collector.detect.thresholds import TelemetryThresholds
from stepwatch.signals.names import FindingKind


def detect(silent_seconds: float, step: int, limits: TelemetryThresholds) -> list[Finding]:
    """A finding if nothing arrived for too long from a job that has not ended.

    `silent_seconds` is counted on the collector's clock; `step` is the newest step known.
    """
    if silent_seconds < limits.least_seconds:
        return []
    evidence = Evidence(
        "seconds since the newest segment", silent_seconds, "seconds", "agents send every second"
    )
    summary = (
        f"nothing was received for {silent_seconds:.0f} s; the newest step known is {step}. "
        "Whether the job trains is unknown"
    )
    return [
        Finding(
            FindingKind.TELEMETRY_LOST,
            NO_RANK,
            "other",
            "agents-silent",
            summary,
            step,
            silent_seconds,
            silent_seconds,
            math.nan,
            math.nan,
            (evidence,),
        )
    ]
