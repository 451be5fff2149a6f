"""Alert thresholds are never stricter than the detectors' thresholds."""

from __future__ import annotations

from stepwatch.alerts import thresholds
from stepwatch.collector.detect import hang, telemetry


def test_the_back_stops_are_slower_than_the_detectors() -> None:
    limits = hang.LIMITS
    assert max(limits.pause_seconds, limits.first_step_seconds) <= thresholds.STALLED_SECONDS
    assert telemetry.LIMITS.least_seconds < thresholds.STALE_SECONDS


def test_a_ratio_is_a_ratio() -> None:
    assert thresholds.SLOWDOWN_RATIO > 1
    assert 0 < thresholds.COVERAGE_RATIO < 1
