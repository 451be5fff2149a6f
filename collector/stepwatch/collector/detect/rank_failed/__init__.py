"""Rank failed: the first rank that died or raised in an attempt that did not finish."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, RankEnd, SilentNode, detect
from .inputs import find, rank_ends

__all__ = ["DETECTORS", "LIMITS", "RankEnd", "SilentNode", "detect", "find", "rank_ends"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.RANK_FAILED}),
        when=When.FAILED,
        order=20,
        find=lambda context: context.once(find),
        gives_way_to=frozenset({FindingKind.DESYNC}),
        needs=Needs.SOME_RANKS,
    ),
)
