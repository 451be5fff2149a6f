"""How long ranks may stand in an evaluation or a save that they marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stepwatch.signals.records import Phase, ProcessState

from .activity import DEAD, Activity, activity_of
from .situation import RankSituation
from .thresholds import Thresholds

Longest = Mapping[Phase, float]
"""Seconds of the longest pause of a rank so far, by phase; unknown ones are left out."""
NONE_KNOWN: Longest = MappingProxyType({})


def paused_phases(ranks: Sequence[RankSituation]) -> set[Phase]:
    """The phases among evaluation and save in which a rank stands whose process lives.

    A process that is stopped or gone neither evaluates nor saves, whatever it began.
    """
    going = {item.phase for item in ranks if item.process not in DEAD}
    return {phase for phase in (Phase.CHECKPOINT, Phase.EVAL) if phase in going}


def marked_seconds(
    ranks: Sequence[RankSituation], phases: set[Phase], longest: Longest, limits: Thresholds
) -> float:
    """How long `ranks` may make no progress, of which some stand in `phases`.

    Where a rank outside any collective runs, it may evaluate more than before. Where none does,
    earlier ones of the same kind say what is usual. Where moreover nobody waits, as far as lines
    show it, they may all wait for what no line shows: it is allowed what is allowed elsewhere then.
    """
    outside = [item for item in ranks if not item.waiting and not item.in_collective]
    known = [longest[phase] for phase in phases if phase in longest]
    idle = all(item.host is None and activity_of(item, limits) is Activity.IDLE for item in outside)
    if not idle or len(known) < len(phases) or any(map(_is_blocked, outside)):
        return limits.pause_seconds
    least = limits.least_evaluation_seconds
    if Phase.CHECKPOINT in phases:
        least = limits.least_save_seconds
    if len(outside) == len(ranks):
        least = limits.held_seconds
    return min(limits.pause_seconds, max(least, limits.pause_multiple * max(known)))


def _is_blocked(item: RankSituation) -> bool:
    """Whether the kernel has it wait, as it does for storage."""
    return item.process is ProcessState.UNINTERRUPTIBLE
