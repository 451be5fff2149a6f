"""Straggler: a rank whose self time is longer than that of ranks with the same work."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import detect
from .inputs import find, rank_facts
from .report import RankFacts
from .thresholds import LIMITS

__all__ = ["DETECTORS", "LIMITS", "RankFacts", "detect", "find", "rank_facts"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.STRAGGLER}),
        when=When.PROGRESSING,
        order=10,
        find=find,
        needs=Needs.OBSERVED_PEERS,
        from_steps=True,
    ),
)
