"""The wait-for graph of a stalled job, from its ranks' positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwatch.collector.detect.wait_graph import Answer, Place, members_of, who_holds_up
from stepwatch.signals.records import OP_NAMES, Op

from .situation import OtherRanks, RankSituation

_EXCHANGE = (Op.SEND, Op.RECV)
"""One rank sends while the other receives: both are in the same exchange."""


def holding_up(
    ranks: Iterable[RankSituation], groups: Mapping[int, str], other_ranks: OtherRanks
) -> Answer:
    """Return the ranks that block the waiting ranks; ended ranks never arrive."""
    places = _Places(groups)
    inside, outside, waiting = {}, list(other_ranks.ended), []
    for item in ranks:
        if item.in_collective:
            inside[item.rank] = places.place_of(item)
        elif item.waiting:
            waiting.append(item.rank)
        else:
            outside.append(item.rank)
    return who_holds_up(inside, outside, [rank.rank for rank in other_ranks.unseen], waiting)


class _Places:
    """The places of ranks: one object per place, as thousands of ranks share it."""

    def __init__(self, groups: Mapping[int, str]) -> None:
        self._groups = groups
        self._cache: dict[tuple[int, int], Place] = {}

    def place_of(self, item: RankSituation) -> Place:
        op = Op.SEND if item.op in _EXCHANGE else item.op
        if (item.group, op) not in self._cache:
            self._cache[item.group, op] = self._make(item.group, op)
        return self._cache[item.group, op]

    def _make(self, group: int, op: int) -> Place:
        text = self._groups.get(group, "")
        name = OP_NAMES[op] if op < len(OP_NAMES) else OP_NAMES[0]
        return Place(name, group, text, members_of(text) if text else None)
