"""Common facts of ranks that halt together: all ranks, or all ranks on a node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import ProcessState

from .situation import RankSituation, Unseen
from .thresholds import Thresholds

_HELD = (ProcessState.STOPPED, ProcessState.UNINTERRUPTIBLE)
"""States that one action or one file system causes on several ranks: none of them is the first."""


def are_all_frozen(ranks: Sequence[RankSituation], limits: Thresholds) -> bool:
    """Return whether no thread runs on any rank, so no rank can be the awaited one.

    A rank that waits in a collective lets its other threads run, so its heartbeat continues. If all
    heartbeats end at one time and no process uses a CPU, something froze them together.
    """
    if any(item.process in _HELD for item in ranks):
        return False  # the processes' states are more specific
    ages = [item.heartbeat_age for item in ranks]
    if len(ranks) < 2 or not max(ages) - min(ages) <= limits.heartbeat_seconds:
        return False
    return min(ages) > limits.heartbeat_seconds and all(item.work is Work.NONE for item in ranks)


def fell_silent_then(
    unseen: Iterable[Unseen],
    seconds: float,
    median_step: float,
    limits: Thresholds,
    lost_seconds: float,
) -> bool:
    """Return whether these ranks fell silent about when the others halted, `seconds` ago.

    `lost_seconds` is the longest such distance in time of a lost node, as in `rank_failed`.

    A lost node's last report came at most a flush and a step before the halt; the others still end
    that step. If they completed steps with its ranks for longer, its agent ended earlier. Worked
    example: steps of 0.3 s, a flush a second, silent for 2.0 s longer -> not lost at that time.
    """
    step = lost_seconds if math.isnan(median_step) else median_step
    return all(
        -lost_seconds
        <= rank.silent_seconds - seconds
        <= min(lost_seconds, rank.flush_seconds + step + limits.late_seconds)
        for rank in unseen
    )


def sharing_state(culprit: RankSituation, ranks: Sequence[RankSituation]) -> list[RankSituation]:
    """Return all ranks in the blocking state of `culprit`.

    If its state blocks no rank, the result is `culprit` alone.
    """
    if culprit.process not in _HELD or culprit.host is not None:
        return [culprit]
    alike = [item for item in ranks if item.process is culprit.process]
    if culprit.process is ProcessState.STOPPED:
        return alike
    # A rank that waits in a collective may be seen blocked in the kernel for a moment.
    return [item for item in alike if not item.is_held]


def node_of(ranks: Sequence[RankSituation]) -> str:
    """Return the node shared by all ranks; empty if there is none or it is unknown."""
    nodes = {item.node for item in ranks}
    return nodes.pop() if len(nodes) == 1 else ""


def who_words(few: Sequence[RankSituation], ranks: Sequence[RankSituation]) -> str:
    """Return for example `all 4 ranks of node a (ranks 0-3)` or `ranks 2-3 of node b`.

    Without a common node: `ranks 1, 5` or `all 8 ranks`.
    """
    node, named = node_of(few), ranks_text([item.rank for item in few])
    if not node:
        return f"all {len(few)} ranks" if len(few) == len(ranks) else named
    if sum(item.node == node for item in ranks) > len(few):
        return f"{named} of node {node}"
    return f"all {len(few)} ranks of node {node} ({named})"
