"""Hang: no rank makes progress; names the rank that did not arrive, and the cause."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .activity import Activity, is_interpreter_held
from .detector import detect
from .inputs import find, rank_diagnostics, rank_situations, stalled, stalled_seconds
from .report import cause_of, line_row, op_name
from .situation import OtherRanks, RankDiagnostics, RankSituation, Unseen, missed_collectives
from .stall import Stall, allowed_seconds, stall_of
from .thresholds import LIMITS

__all__ = [
    "DETECTORS",
    "LIMITS",
    "Activity",
    "OtherRanks",
    "RankDiagnostics",
    "RankSituation",
    "Stall",
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
