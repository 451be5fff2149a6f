"""Desync: ranks of one group enter different collectives."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import Entered, Mismatch, finding, from_flight, from_lines
from .inputs import entered, find, find_failure

__all__ = [
    "DETECTORS",
    "Entered",
    "Mismatch",
    "entered",
    "find",
    "find_failure",
    "finding",
    "from_flight",
    "from_lines",
]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.DESYNC}),
        when=When.STALLED,
        order=10,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
    Detector(
        kinds=frozenset({FindingKind.DESYNC}),
        when=When.FAILED,
        order=10,
        find=find_failure,
        needs=Needs.SOME_RANKS,
    ),
)
