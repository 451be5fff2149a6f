"""How long ranks may stand in an evaluation or a save that they marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stepwatch.signals.records import Phase, ProcessState

from .activity import DEAD, Activity, activity_of
from .situation import RankSituation
from .thresholds import Thresholds

MARKED = (Phase.CHECKPOINT, Phase.EVAL)
"""Phases that may rightly take long."""
Longest = Mapping[Phase, float]
"""Seconds of the longest pause of a rank so far, by phase; unknown ones are left out."""
NONE_KNOWN: Longest = MappingProxyType({})


def paused_phases(ranks: Sequence[RankSituation]) -> set[Phase]:
    """The phases among evaluation and save in which a rank stands whose process lives.

    A process that is stopped or gone neither evaluates nor saves, whatever it began.
    """
    going = {item.phase for item in ranks if item.process not in DEAD}
    return {phase for phase in MARKED if phase in going}


def marked_seconds(
    ranks: Sequence[RankSituation], phases: set[Phase], longest: Longest, limits: Thresholds
) -> float:
    """How long `ranks` may make no progress, of which some stand in `phases`, until they stall.

    Where two or more pauses of the same kind are over, those say what is usual, and others who wait
    are held up by what takes much longer. Where nobody waits and none runs, as far as lines show
    it, they may all wait for what no line shows. Where nobody waits and one runs, nobody is held
    up.
    """
    known = [longest[phase] for phase in phases if phase in longest]
    outside = _outside(ranks)
    held = len(outside) < len(ranks)
    idle = all(activity_of(item, limits) is Activity.IDLE for item in outside)
    if len(known) < len(phases) or not (held or idle):
        return limits.pause_seconds
    least = limits.least_evaluation_seconds
    if Phase.CHECKPOINT in phases:
        least = limits.least_save_seconds
    if not held:
        least = limits.held_seconds
    return min(limits.pause_seconds, max(least, limits.pause_multiple * max(known)))


def may_go_on(ranks: Sequence[RankSituation], limits: Thresholds) -> bool:
    """Whether one of `ranks` may come out of a marked pause by itself, however long it takes.

    One that runs, or may run, evaluates or saves more than before, as the last evaluation of a
    training does. Storage that does not answer and a device that is busy may take any time as well.
    """
    return any(
        item.host is not None
        or item.process is ProcessState.UNINTERRUPTIBLE
        or activity_of(item, limits) is not Activity.IDLE
        for item in _outside(ranks)
    )


def _outside(ranks: Sequence[RankSituation]) -> list[RankSituation]:
    return [item for item in ranks if not item.is_held]
