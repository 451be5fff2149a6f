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
from .scene import Scene

__all__ = ["ENDED_KINDS", "Scene", "find", "find_ended"]

STANDING: tuple[Callable[[Scene], list[Finding]], ...] = (
    desync.find,
    checkpoint_stall.find_standing,
)
"""Say why a job stands still; while one of them speaks, nothing is said about steps."""

LASTING: tuple[Callable[[Scene], list[Finding]], ...] = (
    non_finite.find,
    silent_corruption.find,
    memory_growth.find,
)
"""Stay true whether the job moves or stands."""

MOVING: tuple[Callable[[Scene], list[Finding]], ...] = (
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


def find_ended(scene: Scene) -> list[Finding]:
    """Why the attempt of `scene` failed; empty while it has not."""
    return explained(scene, desync.find_ended(scene))


def find(scene: Scene) -> list[Finding]:
    """What is wrong now: being blind hides everything, standing still hides what is slow."""
    lost = telemetry.find(scene)
    if lost:
        return lost
    standing = [finding for finder in STANDING for finding in finder(scene)]
    lasting = [finding for finder in LASTING for finding in finder(scene)]
    if standing:
        return explained(scene, standing + lasting)
    moving = [finding for finder in MOVING for finding in finder(scene)]
    return explained(scene, moving + lasting)
