"""Node fault: a probe detected faulty hardware, kernel, disk or network on a node of the job."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, Fault, detect
from .inputs import find, present_faults

__all__ = ["DETECTORS", "LIMITS", "Fault", "detect", "find", "present_faults"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.NODE_FAULT}),
        when=When.ALWAYS,
        order=90,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
)
