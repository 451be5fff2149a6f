"""The rows of the table: waits that are legal, and stalls that are not, of the same shapes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

LEGAL_SECONDS = (5.0, 10.0, 20.0, 40.0, 80.0, 120.0)
WORK_BEFORE_SECONDS = 10.0
"""For how long a rank that stalls shows signs of work first."""
WAITS_OF_LOOP = 3


class Shape(StrEnum):
    """What the rank does that the others wait for."""

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
"""In place of the rank that waits: all ranks are inside one collective, which takes its time."""


class Row(NamedTuple):
    """One wait. It is `marked` as an evaluation or not, of rank 0 or another, or of `ALL_INSIDE`;
    in a loop it comes three times, once otherwise, and a stall in a loop comes after two waits of
    ten seconds."""

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
    """Seconds from the beginning of the wait to the first incident and the first page, None where
    there was none; the ranks that they named, the words of the incident, and incidents of other
    kinds meanwhile."""

    incident: float | None
    page: float | None
    ranks: frozenset[int] = frozenset()
    words: str = ""
    other_incidents: tuple[str, ...] = ()


def rows() -> Iterator[Row]:
    """The full product, legal waits first, and the same of transfers that all ranks are inside."""
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
    """What is wrong with an answer: a page on a legal wait of up to a minute, a stall without."""
    problems = []
    if row.kind is Kind.LEGAL and row.seconds <= 60.0 and answer.page is not None:
        problems.append("a page on a legal wait of up to a minute")
    if row.kind is Kind.STALL and (answer.page is None or answer.page > 120.0):
        problems.append("no page within two minutes")
    if answer.ranks and answer.ranks != {row.rank}:
        problems.append(f"names {sorted(answer.ranks)}")
    return problems
