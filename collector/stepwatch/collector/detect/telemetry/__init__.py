"""Telemetry lost: nodes that should send report nothing."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect
from .inputs import find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.TELEMETRY_LOST}),
        when=When.TELEMETRY_MISSING,
        order=0,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
)
