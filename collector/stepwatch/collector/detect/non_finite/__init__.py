"""Non-finite: the rank that first held NaN or infinity."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect, find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.NON_FINITE}),
        when=When.ALWAYS,
        order=10,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
)
