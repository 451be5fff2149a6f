"""Pause: no rank makes progress, but the blocking ranks run, or no rank waits for them."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect, find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.PAUSE}),
        when=When.STALLED,
        order=40,
        find=find,
        gives_way_to=frozenset({FindingKind.CHECKPOINT_STALL}),
        needs=Needs.SOME_RANKS,
    ),
)
