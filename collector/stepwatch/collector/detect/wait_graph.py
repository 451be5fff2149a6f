"""The wait-for graph: rank → the collective it is inside → the members that are not inside.

An edge is a fact: a rank leaves a collective only when all members of its group are inside. A rank
that is waited for, and waits for no other, blocks the rest. Without one, the waiting forms a cycle,
or all members are inside and the collective itself does not end.

    rank 0  in all_reduce of 0-3        the members 2 and 3 are not inside
    rank 1  in all_reduce of 0-3
    rank 2  in all_gather of 2,3        rank 3 is not inside
    rank 3  outside                     it waits for no rank: the others wait for it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from stepwatch.signals.phrases import ranks_text

_REST_UNKNOWN = "..."
"""Ends a group's rank list if the text was truncated."""
MAX_MEMBERS = 1 << 17
"""More members than a job has ranks: a text with that many is invalid."""


class Place(NamedTuple):
    """A collective that ranks are inside: its operation, and its group by number and as text.

    `members` is None if the group's ranks are unknown.
    """

    op: str
    number: int
    group: str = ""
    members: frozenset[int] | None = None

    @property
    def words(self) -> str:
        """Return for example `all_reduce of group 0-3`."""
        return f"{self.op} of group {self.group}" if self.group else self.op


class Link(NamedTuple):
    """`ranks` are inside `place` and wait there for `missing`."""

    ranks: tuple[int, ...]
    place: Place
    missing: tuple[int, ...]

    @property
    def words(self) -> str:
        """Return for example `ranks 0, 2 wait in all_reduce of group 0-2 for rank 1`."""
        verb = "waits" if len(self.ranks) == 1 else "wait"
        return (
            f"{ranks_text(self.ranks)} {verb} in {self.place.words} for {ranks_text(self.missing)}"
        )


class Answer(NamedTuple):
    """The ranks that block the waiting ones, according to the known facts.

    `holding` are observed ranks that wait for no other; `unobserved` are unobserved candidates.
    `cycle` is a cycle of collectives that wait for each other's ranks, empty if a rank causes the
    wait. `complete` are collectives with all members inside.
    """

    holding: tuple[int, ...] = ()
    unobserved: tuple[int, ...] = ()
    cycle: tuple[Link, ...] = ()
    complete: tuple[Place, ...] = ()


def members_of(text: str) -> frozenset[int] | None:
    """Return a group's ranks from text such as `0-3`, `0,2` or `0-3 (name 1)`.

    The result is None if the text is incomplete.
    """
    ranks: set[int] = set()
    for part in text.partition(" ")[0].split(","):
        first, dash, last = part.partition("-")
        if part == _REST_UNKNOWN or not first.isdecimal() or (dash and not last.isdecimal()):
            return None
        end = int(last) if dash else int(first)
        if end >= MAX_MEMBERS:
            return None
        ranks.update(range(int(first), end + 1))
    return frozenset(ranks)


def who_holds_up(
    inside: Mapping[int, Place],
    outside: Collection[int],
    unobserved: Collection[int] = (),
    waiting: Collection[int] = (),
) -> Answer:
    """Follow the waiting to its end.

    `inside` maps a rank to its collective. `outside` are observed ranks that wait for no other.
    `unobserved` ranks may be anywhere. `waiting` ranks wait for an unknown rank.
    """
    links = _links(inside, [*outside, *unobserved], waiting)
    missing = frozenset(rank for link in links for rank in link.missing)
    observed = frozenset(outside) & missing
    unseen = frozenset(unobserved) & missing
    return Answer(
        holding=tuple(sorted(observed)),
        unobserved=tuple(sorted(unseen)),
        cycle=_cycle(links, inside, frozenset((*observed, *unseen, *waiting))),
        complete=tuple(link.place for link in links if link.place.members and not link.missing),
    )


def _links(
    inside: Mapping[int, Place], unblocked: Iterable[int], waiting: Collection[int]
) -> list[Link]:
    """Return one link per collective: 16,384 ranks do not need 16,384 times 16,384 edges.

    If a group's ranks are unknown, any rank inside no collective may be missing.
    """
    by_place: dict[Place, list[int]] = {}
    for rank in sorted(inside):
        by_place.setdefault(inside[rank], []).append(rank)
    located = {*inside, *unblocked, *waiting}
    free = frozenset(unblocked)
    links = []
    for place, ranks in by_place.items():
        absent = free if place.members is None else (place.members & located) - {*ranks}
        links.append(Link(tuple(ranks), place, tuple(sorted(absent))))
    return links


def _cycle(
    links: list[Link], inside: Mapping[int, Place], ends: frozenset[int]
) -> tuple[Link, ...]:
    """Return the first cycle of collectives from which the waiting reaches no end."""
    by_place = {link.place: link for link in links}
    held_up = _reaching(links, inside, ends)
    for start in links:
        path: list[Link] = []
        link = start
        while link.place not in held_up and link.missing and link not in path:
            path.append(link)
            link = by_place[inside[link.missing[0]]]
        if link in path:
            return tuple(path[path.index(link) :])
    return ()


def _reaching(
    links: list[Link], inside: Mapping[int, Place], ends: frozenset[int]
) -> frozenset[Place]:
    """Return the collectives whose waiting ends at one of `ends`, directly or through others.

    A collective with all members inside is an end, too: it is not part of a cycle.
    """
    waits_on: dict[Place, list[Place]] = {}
    frontier: list[Place] = []
    for link in links:
        if not link.missing or not ends.isdisjoint(link.missing):
            frontier.append(link.place)
        for rank in link.missing:
            if rank in inside:
                waits_on.setdefault(inside[rank], []).append(link.place)
    reached = set(frontier)
    while frontier:
        for place in waits_on.get(frontier.pop(), ()):
            if place not in reached:
                reached.add(place)
                frontier.append(place)
    return frozenset(reached)
