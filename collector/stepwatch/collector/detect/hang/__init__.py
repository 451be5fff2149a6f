"""Hang: no rank makes progress; names the rank that did not arrive, and the cause."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .inputs import find, rank_diagnostics, rank_situations, stalled, stalled_seconds
from .report import cause_of, detect, line_row, op_name
from .situation import (
    LIMITS,
    Activity,
    OtherRanks,
    RankDiagnostics,
    RankSituation,
    Thresholds,
    Unseen,
    is_interpreter_held,
    missed_collectives,
)
from .stall import Stall, allowed_seconds, stall_of

__all__ = [
    "DETECTORS",
    "LIMITS",
    "Activity",
    "OtherRanks",
    "RankDiagnostics",
    "RankSituation",
    "Stall",
    "Thresholds",
    "Unseen",
    "allowed_seconds",
    "cause_of",
    "detect",
    "find",
    "is_interpreter_held",
    "line_row",
    "missed_collectives",
    "op_name",
    "rank_diagnostics",
    "rank_situations",
    "stall_of",
    "stalled",
    "stalled_seconds",
]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.HANG}),
        when=When.STALLED,
        order=20,
        find=lambda context: context.once(find),
        gives_way_to=frozenset({FindingKind.DESYNC}),
        needs=Needs.SOME_RANKS,
    ),
)
