"""Findings of one job: each file gathers what one detector needs from live state and asks it."""

from __future__ import annotations

from collections.abc import Callable

from stepwatch.collector.detect.finding import Finding
from stepwatch.signals.names import FindingKind

from . import (
    checkpoint_stall,
    data_skew,
    data_stall,
    desync,
    loss_anomaly,
    memory_growth,
    non_finite,
    pipeline_bubble,
    silent_corruption,
    slow_collective,
    straggler,
    telemetry,
    throughput_regression,
)
from .causes import explained
from .context import DetectionContext

__all__ = ["ENDED_KINDS", "DetectionContext", "find", "find_ended"]

STANDING: tuple[Callable[[DetectionContext], list[Finding]], ...] = (
    desync.find,
    checkpoint_stall.find_standing,
)
"""Say why a job stands still; while one of them speaks, nothing is said about steps."""

LASTING: tuple[Callable[[DetectionContext], list[Finding]], ...] = (
    non_finite.find,
    silent_corruption.find,
    memory_growth.find,
)
"""Stay true whether the job moves or stands."""

MOVING: tuple[Callable[[DetectionContext], list[Finding]], ...] = (
    straggler.find,
    data_stall.find,
    data_skew.find,
    slow_collective.find,
    checkpoint_stall.find,
    loss_anomaly.find,
    pipeline_bubble.find,
    throughput_regression.find,
)
"""Look at the steps of a job that moves."""


ENDED_KINDS = frozenset({FindingKind.RANK_FAILED.value, FindingKind.DESYNC.value})
"""What is said of an attempt that failed, and stays until a later one makes progress."""


def find_ended(context: DetectionContext) -> list[Finding]:
    """Why the attempt of `context` failed; empty while it has not."""
    return explained(context, desync.find_ended(context))


def find(context: DetectionContext) -> list[Finding]:
    """What is wrong now: being blind hides everything, standing still hides what is slow."""
    lost = telemetry.find(context)
    if lost:
        return lost
    standing = [finding for finder in STANDING for finding in finder(context)]
    lasting = [finding for finder in LASTING for finding in finder(context)]
    if standing:
        return explained(context, standing + lasting)
    moving = [finding for finder in MOVING for finding in finder(context)]
    return explained(context, moving + lasting)
