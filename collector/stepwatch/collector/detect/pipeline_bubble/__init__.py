"""Pipeline bubble: ranks idle because one stage is slow, or because microbatches are few."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect
from .inputs import find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.PIPELINE_BUBBLE}),
        when=When.PROGRESSING,
        order=70,
        find=find,
        from_steps=True,
    ),
)
