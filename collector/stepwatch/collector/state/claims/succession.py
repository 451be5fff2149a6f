"""Whether a later attempt really follows the running one, or only claims to.

One segment can name any attempt. A launcher ends the ranks of one attempt before it starts those
for the next, mostly on the same nodes. So on the previous attempt's nodes a later attempt follows
once half the watched ranks have ended. If their ends are reported late, it follows once most new
ranks are there. On other nodes it follows once the previous attempt sends nothing, or once half its
ranks have ended and the others make no step: an unkillable process stays for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.claims.rank_claims import SILENT_SECONDS


def follows(later: Attempt, newest: Attempt) -> bool:
    """Return whether the received segments confirm `later` as the next attempt.

    Eight ranks on two nodes run. One rank on a third node, with a world size of one: no. Four ranks
    with a world size of four on one of the two nodes: yes.
    """
    if not newest.world:
        return True
    now_s, seen_ranks = later.claims.seen_s, len(later.claims.ranks)
    if newest.claims.is_silent(now_s):
        return True
    overlap = later.claims.on_nodes_of(newest.claims)
    if _is_left(newest, now_s):
        stalled = now_s - newest.steps.newest_s > SILENT_SECONDS and 2 * seen_ranks > later.world
        return (seen_ranks > 0 and 2 * overlap >= seen_ranks) or stalled
    return 2 * overlap > min(later.world, _watched(newest)) and 2 * overlap >= _watched(newest)


def _watched(attempt: Attempt) -> int:
    """Return the number of ranks that agents report, below the world if only some are watched."""
    return min(attempt.world, len(attempt.claims.ranks))


def _is_left(attempt: Attempt, now_s: float) -> bool:
    """Return whether half the watched ranks have ended or vanished, or are on stale nodes.

    A node is stale if nothing arrived from it for a while before `now_s` (Unix seconds).
    """
    silent = set(attempt.claims.silent_ranks(now_s).tolist())
    departed = attempt.lifecycle.ended.keys() | attempt.ranks.gone | silent
    return 2 * sum(0 <= rank < attempt.world for rank in departed) >= _watched(attempt)


def follower(candidates: Mapping[int, Attempt], newest: Attempt) -> int | None:
    """Return the number of the candidate that follows `newest`, None without one.

    Among several the one with most ranks on the nodes of `newest` wins.
    """
    following = [number for number, attempt in candidates.items() if follows(attempt, newest)]

    def ranks(number: int) -> tuple[int, int]:
        return candidates[number].claims.on_nodes_of(newest.claims), number

    return max(following, key=ranks, default=None)
