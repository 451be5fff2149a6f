"""Hang: no rank makes progress; the rank that did not arrive, and why."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import allowed_seconds, detect
from .inputs import asked, find, rank_situations, stalled_seconds
from .situation import Asked, RankSituation, missed_collectives
from .thresholds import LIMITS

__all__ = [
    "DETECTORS",
    "LIMITS",
    "Asked",
    "RankSituation",
    "allowed_seconds",
    "asked",
    "detect",
    "find",
    "missed_collectives",
    "rank_situations",
    "stalled_seconds",
]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.HANG}),
        when=When.STALLED,
        order=20,
        find=lambda context: context.once(find),
        gives_way_to=frozenset({FindingKind.DESYNC}),
    ),
)
