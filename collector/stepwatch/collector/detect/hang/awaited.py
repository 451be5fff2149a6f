"""The collective in which ranks that are missing are waited for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stepwatch.collector.detect.wait_graph import members_of

from .situation import RankSituation


def waiter_for(
    missing: Collection[int], ranks: Iterable[RankSituation], groups: Mapping[int, str]
) -> RankSituation | None:
    """The first of `ranks` that is inside a collective of a group that one of `missing` is in.

    Else the first inside one whose members are not known; None where all are of other groups, or
    in an exchange between pipeline stages. `groups` maps their numbers to their members as text.
    """
    unknown = None
    for item in ranks:
        if not item.in_collective or item.rank in missing:
            continue
        members = members_of(groups.get(item.group, ""))
        if members is None:
            unknown = unknown or item
        elif not members.isdisjoint(missing):
            return item
    return unknown
