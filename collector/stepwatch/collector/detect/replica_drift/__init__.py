"""Replica drift: replicas that train apart because of the code, not of a device."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import detect
from .inputs import find

__all__ = ["DETECTORS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.REPLICA_DRIFT}),
        when=When.ALWAYS,
        order=25,
        find=find,
    ),
)
