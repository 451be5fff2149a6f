"""Who waits for whom: rank → the collective it is inside → the members that are not.

An edge is a fact: a rank inside a collective goes on only when all members of its group are inside.
Who waits for nobody, and is waited for, holds the others up. Where there is no such rank, the
waiting goes around in a circle, or all members are inside and the collective itself does not end.

    rank 0  in all_reduce of 0-3        the members 2 and 3 are not inside
    rank 1  in all_reduce of 0-3
    rank 2  in all_gather of 2,3        rank 3 is not inside
    rank 3  outside                     it waits for nobody: the others wait for it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from stepwatch.signals.phrases import ranks_text

_REST_UNKNOWN = "..."
"""Ends the ranks of a group whose text was cut."""
MAX_MEMBERS = 1 << 17
"""More members than a job has ranks: a text that claims them says nothing."""


class Place(NamedTuple):
    """A collective that ranks are inside: its operation, and its group by number and as text.

    `members` is None where the group's ranks are not known.
    """

    op: str
    number: int
    group: str = ""
    members: frozenset[int] | None = None

    @property
    def words(self) -> str:
        """`all_reduce of group 0-3`."""
        return f"{self.op} of group {self.group}" if self.group else self.op


class Link(NamedTuple):
    """`ranks` are inside `place` and wait there for `missing`."""

    ranks: tuple[int, ...]
    place: Place
    missing: tuple[int, ...]

    @property
    def words(self) -> str:
        """`ranks 0, 2 wait in all_reduce of group 0-2 for rank 1`."""
        verb = "waits" if len(self.ranks) == 1 else "wait"
        return (
            f"{ranks_text(self.ranks)} {verb} in {self.place.words} for {ranks_text(self.missing)}"
        )


class Answer(NamedTuple):
    """Who holds the waiting ranks up, of what is known.

    `holding` are observed ranks that wait for nobody; `unobserved` those of whom nothing is
    known. `cycle` is a circle of collectives that wait for each other's ranks, empty where a rank
    stands behind the waiting. `complete` are collectives that all members are inside.
    """

    holding: tuple[int, ...] = ()
    unobserved: tuple[int, ...] = ()
    cycle: tuple[Link, ...] = ()
    complete: tuple[Place, ...] = ()


def members_of(text: str) -> frozenset[int] | None:
    """Ranks of a group as text, `0-3`, `0,2` or `0-3 (name 1)`; None where it does not say all."""
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

    `inside` maps a rank to the collective that it is inside; `outside` are observed ranks that wait
    for nobody; `unobserved` may be anywhere; `waiting` wait for somebody who is not known.
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
    """One link for each collective: a group of 16,384 ranks is not 16,384 times 16,384 edges.

    Where a group's ranks are not known, those that are inside no collective may be missing.
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
    """The first circle of collectives from which no end of the waiting is reached."""
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
    """Collectives whose waiting ends at one of `ends`, directly or through others.

    One that all members are inside is an end, too: it does not go around in a circle.
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
