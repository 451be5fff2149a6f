"""Hang: no rank makes progress, and no pause explains it; names the missing rank and the cause.

Ages come from each node's own monotonic clock, so no two clocks are compared. The rank that did not
arrive is neither inside a collective nor waiting for a pipeline neighbour. If a rank's device is
busy, the device shows the rank's position (`device`). The activity of a rank outside any collective
decides whether it is a pause (`stall`).
"""

from __future__ import annotations

from stepwatch.collector.detect.finding import Finding
from stepwatch.signals.records import ProcessState

from .activity import DEAD
from .no_rank import finding_on_several, finding_without_rank
from .report import finding_of
from .situation import RankSituation
from .stall import Stall
from .thresholds import Thresholds
from .together import are_all_frozen, sharing_state


def detect(stall: Stall | None, limits: Thresholds) -> list[Finding]:
    """Return one finding if nothing moves for longer than a pause explains."""
    if stall is None or not stall.is_hang:
        return []
    culprit = None if are_all_frozen(stall.ranks, limits) else _culprit(stall)
    if culprit is None:
        return [finding_without_rank(stall, limits)]
    few = sharing_state(culprit, stall.ranks)
    return [finding_on_several(stall, few) if len(few) > 1 else finding_of(stall, culprit, limits)]


def _culprit(stall: Stall) -> RankSituation | None:
    """Return the rank for which all others wait.

    A dead or stopped rank has precedence over the rank that is behind. If the lines do not name one
    rank (the hooks may not see the trainer's collectives), the flight recorders do: a rank in
    `lacking` entered one collective less. A waiting rank may be seen blocked in the kernel for a
    moment; being blocked only counts for a rank that does not wait.
    """
    ranks = stall.ranks
    missing = _missing(stall)
    for state in DEAD:
        for item in ranks:
            if item.process is state:
                return item
    blocked = [
        item
        for item in missing
        if item.process is ProcessState.UNINTERRUPTIBLE and item.host is None
    ]
    if blocked:
        return blocked[0]
    if not any(item.rank in stall.answer.holding for item in missing) and (
        stall.answer.holding or stall.answer.unobserved
    ):
        return None  # all ranks wait for an ended or unobserved rank
    if not missing or len(missing) == len(ranks) > 1:
        behind = {item.rank for item in stall.lacking}
        # A busy device's recorder counts operations that its host enqueued ahead.
        candidates = [item for item in ranks if item.rank in behind and item.host is None]
        return candidates[0] if len(candidates) == 1 else None
    idle = {item.rank for item in stall.idle}
    return max(missing, key=lambda item: (item.rank in idle, -item.step, item.moved_age))


def _missing(stall: Stall) -> list[RankSituation]:
    """Return the ranks that wait for no other rank.

    If the graph shows awaited ranks, only those count.
    """
    missing = [item for item in stall.ranks if not item.is_held]
    holding = [item for item in missing if item.rank in stall.answer.holding]
    return holding or missing
