"""Data stall: the whole job waits for its data, far longer than its baseline."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, Baseline, baseline_of, detect
from .inputs import find

__all__ = ["DETECTORS", "LIMITS", "Baseline", "baseline_of", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.DATA_STALL}),
        when=When.PROGRESSING,
        order=20,
        find=find,
        needs=Needs.SOME_RANKS,
        from_steps=True,
    ),
)
