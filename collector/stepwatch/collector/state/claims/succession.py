"""Whether a later attempt follows the one that runs, or only claims to.

One segment can name any attempt. A launcher ends the ranks of one before it starts those of the
next, mostly on the same nodes. So a later attempt follows on nodes of the one before once half of
the watched ranks of that have ended, or, where their ends are reported late, once most ranks of the
new one are there. On other nodes it follows once nothing is received of the one before, or once
half of that has ended and the rest makes no step: a process that cannot be killed stays for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.claims.rank_claims import SILENT_SECONDS


def follows(later: Attempt, newest: Attempt) -> bool:
    """Whether what is known of `later` speaks for it.

    Eight ranks on two nodes run. One rank on a third node, of a world of one: no. Four ranks of a
    world of four on one of the two: yes.
    """
    if not newest.world:
        return True
    now_s, seen_ranks = later.claims.seen_s, len(later.claims.ranks)
    if newest.claims.is_silent(now_s):
        return True
    overlap = later.claims.on_nodes_of(newest.claims)
    if _is_left(newest, now_s):
        stalled = now_s - newest.newest_s > SILENT_SECONDS and 2 * seen_ranks > later.world
        return (seen_ranks > 0 and 2 * overlap >= seen_ranks) or stalled
    return 2 * overlap > min(later.world, _watched(newest)) and 2 * overlap >= _watched(newest)


def _watched(attempt: Attempt) -> int:
    """Ranks that agents reported: of a job that is watched in part, fewer than its world."""
    return min(attempt.world, len(attempt.claims.ranks))


def _is_left(attempt: Attempt, now_s: float) -> bool:
    """Whether at least half of the watched ranks ended, vanished, or are on nodes of which nothing
    came for a while before `now_s` (Unix seconds)."""
    silent = set(attempt.claims.silent_ranks(now_s).tolist())
    departed = attempt.ended.keys() | attempt.ranks.gone | silent
    return 2 * sum(0 <= rank < attempt.world for rank in departed) >= _watched(attempt)


def follower(candidates: Mapping[int, Attempt], newest: Attempt) -> int | None:
    """The number of the candidate that follows `newest`, None while none does; of several, the one
    with most ranks on nodes of that."""
    following = [number for number, attempt in candidates.items() if follows(attempt, newest)]

    def ranks(number: int) -> tuple[int, int]:
        return candidates[number].claims.on_nodes_of(newest.claims), number

    return max(following, key=ranks, default=None)
