"""The rows of the table: legal waits, and real stalls of the same shapes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

LEGAL_SECONDS = (5.0, 10.0, 20.0, 40.0, 80.0, 120.0)
WORK_BEFORE_SECONDS = 10.0
"""Seconds in which a rank shows signs of work before it stalls."""
WAITS_OF_LOOP = 3


class Shape(StrEnum):
    """The activity of the rank that the others wait for."""

    BYTES = "bytes move"
    CPU = "CPU"
    CHILDREN = "children at work"
    NOTHING = "nothing"


class Kind(StrEnum):
    """How the wait ends."""

    LEGAL = "legal wait"
    STALL = "stall"
    """Signs of work end, and the wait does not."""
    ENDLESS = "endless work"
    """Neither ends: from outside it is a legal wait."""


ALL_INSIDE = -1
"""In place of the waiting rank: all ranks are inside one long collective."""


class Row(NamedTuple):
    """One wait.

    It is `marked` as an evaluation or not, and belongs to rank 0, another rank, or `ALL_INSIDE`. In
    a loop a legal wait comes three times, and a stall comes after two waits of ten seconds.
    """

    kind: Kind
    seconds: float
    shape: Shape
    marked: bool
    rank: int
    in_loop: bool

    @property
    def name(self) -> str:
        """`legal wait of 20 s, CPU, marked, rank 0, in a loop`."""
        length = f" of {self.seconds:.0f} s" if math.isfinite(self.seconds) else ""
        marked = "marked" if self.marked else "not marked"
        times = "in a loop" if self.in_loop else "once"
        ranks = "all inside" if self.rank == ALL_INSIDE else f"{marked}, rank {self.rank}"
        return f"{self.kind}{length}, {self.shape}, {ranks}, {times}"


class Answer(NamedTuple):
    """The answer to one wait.

    It holds the seconds from the beginning of the wait to the first incident and the first page
    (None without one), the ranks that they named, the incident's words, and meanwhile incidents of
    other kinds.
    """

    incident: float | None
    page: float | None
    ranks: frozenset[int] = frozenset()
    words: str = ""
    other_incidents: tuple[str, ...] = ()


def rows() -> Iterator[Row]:
    """Return the full product, legal waits first, and the same transfers with all ranks inside."""
    for seconds, shape, marked, rank, in_loop in itertools.product(
        LEGAL_SECONDS, Shape, (False, True), (0, 2), (False, True)
    ):
        yield Row(Kind.LEGAL, seconds, shape, marked, rank, in_loop)
    for kind, shape, marked, rank, in_loop in itertools.product(
        (Kind.STALL, Kind.ENDLESS), Shape, (False, True), (0, 2), (False, True)
    ):
        if kind is Kind.STALL or shape is not Shape.NOTHING:
            yield Row(kind, math.inf, shape, marked, rank, in_loop)
    for shape, in_loop in itertools.product(Shape, (False, True)):
        for seconds in LEGAL_SECONDS:
            yield Row(Kind.LEGAL, seconds, shape, False, ALL_INSIDE, in_loop)
        yield Row(Kind.STALL, math.inf, shape, False, ALL_INSIDE, in_loop)


def faults(row: Row, answer: Answer) -> list[str]:
    """Return an answer's faults: a page on a legal wait of up to a minute, an unpaged stall."""
    problems = []
    if row.kind is Kind.LEGAL and row.seconds <= 60.0 and answer.page is not None:
        problems.append("a page on a legal wait of up to a minute")
    if row.kind is Kind.STALL and (answer.page is None or answer.page > 120.0):
        problems.append("no page within two minutes")
    if answer.ranks and answer.ranks != {row.rank}:
        problems.append(f"names {sorted(answer.ranks)}")
    return problems
