"""The collective in which other ranks wait for missing ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stepwatch.collector.detect.wait_graph import members_of

from .situation import RankSituation


def waiter_for(
    missing: Collection[int], ranks: Iterable[RankSituation], groups: Mapping[int, str]
) -> RankSituation | None:
    """Return the first of `ranks` inside a collective whose group contains a `missing` rank.

    Otherwise it is the first rank inside a collective with unknown members. The result is None if
    all are in other groups, or in an exchange between pipeline stages. `groups` maps group numbers
    to their members as text.
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
