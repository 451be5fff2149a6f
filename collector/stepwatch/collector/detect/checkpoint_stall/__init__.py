"""Checkpoint stall: the training loop waits too long or too often for a checkpoint."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, Run, Saving, detect, usual_seconds
from .inputs import find, find_in_progress

__all__ = [
    "DETECTORS",
    "LIMITS",
    "Run",
    "Saving",
    "detect",
    "find",
    "find_in_progress",
    "usual_seconds",
]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.CHECKPOINT_STALL}),
        when=When.STALLED,
        order=30,
        find=find_in_progress,
    ),
    Detector(
        kinds=frozenset({FindingKind.CHECKPOINT_STALL}),
        when=When.PROGRESSING,
        order=50,
        find=find,
    ),
)
