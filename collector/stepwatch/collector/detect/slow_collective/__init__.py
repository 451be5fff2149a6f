"""Slow collective: an operation whose transfer takes longer than its baseline."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, Steps, detect
from .inputs import find
from .stages import Waiting, detect_between_stages, find_between_stages

__all__ = [
    "DETECTORS",
    "LIMITS",
    "Steps",
    "Waiting",
    "detect",
    "detect_between_stages",
    "find",
    "find_between_stages",
]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.SLOW_COLLECTIVE}),
        when=When.PROGRESSING,
        order=40,
        find=find,
        from_steps=True,
    ),
    Detector(
        kinds=frozenset({FindingKind.SLOW_COLLECTIVE}),
        when=When.PROGRESSING,
        order=45,
        find=find_between_stages,
        gives_way_to=frozenset({FindingKind.SLOW_COLLECTIVE}),
    ),
)
