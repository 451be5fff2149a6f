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

    Where two or more of the same kind are over, those say what is usual: beyond it, one in which
    others wait is a pause while what holds them up runs, and a hang where nothing does. Storage
    that does not answer, a busy device, and ranks that run while nobody waits may take any time.
    Where nobody waits and none runs, as far as lines show it, they may all wait for what no line
    shows; where some run and some do not, these may wait for those. Then it is allowed what is
    allowed elsewhere.
    """
    outside = [item for item in ranks if not item.waiting and not item.in_collective]
    held = len(outside) < len(ranks)
    known = [longest[phase] for phase in phases if phase in longest]
    idle = [activity_of(item, limits) is Activity.IDLE for item in outside]
    if len(known) < len(phases) or any(map(_may_take_longer, outside)):
        return limits.pause_seconds
    if not (held or all(idle)):
        return limits.pause_seconds
    least = limits.least_evaluation_seconds
    if Phase.CHECKPOINT in phases:
        least = limits.least_save_seconds
    if not held or len(set(idle)) > 1:
        least = limits.held_seconds
    return min(limits.pause_seconds, max(least, limits.pause_multiple * max(known)))


def _may_take_longer(item: RankSituation) -> bool:
    """Whether the kernel has it wait, as it does for storage, or its device is busy."""
    return item.process is ProcessState.UNINTERRUPTIBLE or item.host is not None
