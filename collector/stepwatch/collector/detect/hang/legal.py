"""The legal duration of a wait: by its phase, and by the longest wait the job recovered from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from stepwatch.signals.records import Phase

from .activity import DEAD, Activity, activity_of
from .situation import RankSituation
from .thresholds import Thresholds

MARKED = (Phase.CHECKPOINT, Phase.EVAL)
"""Phases that may legitimately take long."""
Longest = Mapping[Phase, float]
"""Longest seconds that a rank has spent in each phase in one step; unknown phases are absent."""
NONE_KNOWN: Longest = MappingProxyType({})


def paused_phases(ranks: Sequence[RankSituation]) -> set[Phase]:
    """Return the evaluation and save phases that hold a rank with a live process.

    A stopped or lost process neither evaluates nor saves, whatever it began.
    """
    going = {item.phase for item in ranks if item.process not in DEAD}
    return {phase for phase in MARKED if phase in going}


def usual_seconds(ranks: Iterable[RankSituation], longest: Longest, limits: Thresholds) -> float:
    """Return the usual limit for a wait of one of `ranks`, in seconds; 0 without history.

    The limit follows the longest pause from which the job recovered.
    """
    pauses = (longest.get(Phase(item.phase), 0.0) for item in ranks if item.phase in _PHASES)
    return limits.pause_multiple * max(pauses, default=0.0)


_PHASES = frozenset(Phase)


def legal_seconds(
    ranks: Sequence[RankSituation],
    outside: Iterable[RankSituation],
    longest: Longest,
    limits: Thresholds,
) -> float:
    """Return how long ranks that are `outside` may block the job without a sign of work."""
    least = limits.marked_seconds if paused_phases(ranks) else limits.legal_seconds
    return max(least, min(usual_seconds(outside, longest, limits), limits.held_seconds))


def may_go_on(ranks: Sequence[RankSituation], limits: Thresholds) -> bool:
    """Return whether one of `ranks` may end a marked pause by itself, however long it takes.

    A rank that works, or may work, evaluates or saves more than before, as a training's last
    evaluation does. A busy device may also take any time.
    """
    return any(
        item.host is not None or activity_of(item, limits) is not Activity.IDLE
        for item in ranks
        if not item.is_held
    )
