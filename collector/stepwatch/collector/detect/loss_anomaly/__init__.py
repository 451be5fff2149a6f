"""Loss anomaly: the loss jumps, keeps rising, or no longer falls."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect
from .inputs import find, losses_of

__all__ = ["DETECTORS", "LIMITS", "detect", "find", "losses_of"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.LOSS_ANOMALY}),
        when=When.PROGRESSING,
        order=60,
        find=find,
        from_steps=True,
    ),
)
