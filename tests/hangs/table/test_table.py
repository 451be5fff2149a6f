"""Legal waits page no operator for a minute, and real stalls page within two, in every shape."""

from __future__ import annotations

import math

import pytest

from .made import answer_of
from .rows import ALL_INSIDE, Answer, Kind, Row, Shape, faults, rows

ROWS = [*rows()]
FEW = [
    row
    for row in ROWS
    if (row.rank == ALL_INSIDE or (row.rank, row.in_loop) == (2, True))
    and (row.kind is Kind.STALL or (row.kind is Kind.LEGAL and row.seconds == 40.0))
]
LONG = pytest.mark.long(
    "tests/hangs/table/test_table.py::test_each_shape_of_waits_and_stalls",
    "tests/hangs/table/test_table.py::test_a_stall_that_is_not_marked_is_said_within_ten_seconds_of_its_end_of_work",
)


def is_fast(row: Row) -> bool:
    """Whether the row is in the fast lane: two shapes whole, of the others one transfer."""
    return row.shape in (Shape.CPU, Shape.NOTHING) or (row.rank == ALL_INSIDE and not row.in_loop)


def test_the_table_is_the_full_product() -> None:
    legal = [row for row in ROWS if row.kind is Kind.LEGAL]
    assert len(legal) == len({*legal}) == 6 * 4 * 2 * (2 * 2 + 1)
    assert len([row for row in ROWS if row.kind is Kind.STALL]) == 4 * 2 * (2 * 2 + 1)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=() if is_fast(row) else LONG) for row in FEW]
)
def test_each_shape_of_waits_and_stalls(row: Row) -> None:
    assert faults(row, answer_of(row)) == []


@pytest.mark.matrix
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.kind is not Kind.ENDLESS], ids=lambda row: row.name
)
def test_the_whole_table(row: Row) -> None:
    assert faults(row, answer_of(row)) == []


@pytest.mark.parametrize("shape", Shape)
def test_a_stall_that_is_not_marked_is_said_within_ten_seconds_of_its_end_of_work(
    shape: Shape,
) -> None:
    """A rank that computes for ten seconds may be evaluating: it is reported when it stops."""
    answer = answer_of(Row(Kind.STALL, math.inf, shape, marked=False, rank=0, in_loop=False))
    assert answer.incident is not None and answer.incident <= 20.0


def test_wrong_answers_are_called_so() -> None:
    row = Row(Kind.LEGAL, 40.0, Shape.CPU, marked=False, rank=0, in_loop=False)
    assert faults(row, Answer(8.0, None, frozenset({0}))) == []
    assert faults(row, Answer(8.0, 30.0, frozenset({0})))
    assert faults(row, Answer(8.0, None, frozenset({2})))
    stall = row._replace(kind=Kind.STALL, seconds=math.inf)
    assert faults(stall, Answer(8.0, None, frozenset({0})))
    assert faults(stall, Answer(8.0, 121.0, frozenset({0})))
    assert faults(stall, Answer(8.0, 90.0, frozenset({0}))) == []
