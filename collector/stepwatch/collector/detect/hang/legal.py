"""How long a wait may be legal: by its phase, and by the longest that the job came out of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from stepwatch.signals.records import Phase

from .activity import DEAD, Activity, activity_of
from .situation import RankSituation
from .thresholds import Thresholds

MARKED = (Phase.CHECKPOINT, Phase.EVAL)
"""Phases that may rightly take long."""
Longest = Mapping[Phase, float]
"""Seconds that a rank has spent in each phase of one step at most; unknown ones are left out."""
NONE_KNOWN: Longest = MappingProxyType({})


def paused_phases(ranks: Sequence[RankSituation]) -> set[Phase]:
    """The phases among evaluation and save in which a rank stands whose process lives.

    A process that is stopped or gone neither evaluates nor saves, whatever it began.
    """
    going = {item.phase for item in ranks if item.process not in DEAD}
    return {phase for phase in MARKED if phase in going}


def usual_seconds(ranks: Iterable[RankSituation], longest: Longest, limits: Thresholds) -> float:
    """What a wait of one of `ranks` may take by the longest that the job came out of; 0 without."""
    pauses = (longest.get(Phase(item.phase), 0.0) for item in ranks if item.phase in _PHASES)
    return limits.pause_multiple * max(pauses, default=0.0)


_PHASES = frozenset(Phase)


def legal_seconds(
    ranks: Sequence[RankSituation],
    outside: Iterable[RankSituation],
    longest: Longest,
    limits: Thresholds,
) -> float:
    """How long those of `ranks` that are `outside` may hold the job up without a sign of work."""
    least = limits.marked_seconds if paused_phases(ranks) else limits.legal_seconds
    return max(least, min(usual_seconds(outside, longest, limits), limits.held_seconds))


def may_go_on(ranks: Sequence[RankSituation], limits: Thresholds) -> bool:
    """Whether one of `ranks` may come out of a marked pause by itself, however long it takes.

    One that works, or may work, evaluates or saves more than before, as the last evaluation of a
    training does. A device that is busy may take any time as well.
    """
    return any(
        item.host is not None or activity_of(item, limits) is not Activity.IDLE
        for item in ranks
        if not item.is_held
    )
