"""Held up: occasional far longer steps, on any rank or on all, that no single rank explains."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect, find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.DATA_STALL, FindingKind.THROUGHPUT_REGRESSION}),
        when=When.PROGRESSING,
        order=85,
        find=find,
        gives_way_to=frozenset({FindingKind.DATA_STALL}),
        needs=Needs.SOME_RANKS,
        from_steps=True,
    ),
)
