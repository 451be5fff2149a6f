"""Throughput regression: the whole job is slower than its baseline, or than its class."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, Shift, detect
from .inputs import find

__all__ = ["DETECTORS", "LIMITS", "Shift", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.THROUGHPUT_REGRESSION}),
        when=When.PROGRESSING,
        order=80,
        find=find,
        needs=Needs.SOME_RANKS,
        from_steps=True,
    ),
)
