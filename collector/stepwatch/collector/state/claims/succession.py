"""Whether a later attempt follows the one that runs, or only claims to.

One segment can name any attempt. A launcher ends the ranks of one before it starts those of the
next, mostly on the same nodes. So a later attempt follows on nodes of the one before once half of
the ranks of that have ended, or though their ends are told late, once most ranks of the new one are
there; and on other nodes once nothing is heard of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwatch.collector.state.attempt import Attempt


def follows(later: Attempt, newest: Attempt) -> bool:
    """Whether what is known of `later` speaks for it.

    Eight ranks on two nodes run. One rank on a third node, of a world of one: no. Four ranks of a
    world of four on one of the two: yes.
    """
    if not newest.world:
        return True
    now_s, seen = later.heard_s, len(later.claims.ranks)
    there = later.claims.on_nodes_of(newest.claims)
    if newest.is_left(now_s):
        return (seen > 0 and 2 * there >= seen) or newest.claims.is_silent(now_s)
    return 2 * there > later.world and 2 * there >= newest.world


def follower(candidates: Mapping[int, Attempt], newest: Attempt) -> int | None:
    """The number of the candidate that follows `newest`, None while none does; of several, the one
    with most ranks on nodes of that."""
    following = [number for number, each in candidates.items() if follows(each, newest)]

    def ranks(number: int) -> tuple[int, int]:
        return candidates[number].claims.on_nodes_of(newest.claims), number

    return max(following, key=ranks, default=None)
