"""Rows picked as bytes, ranks taken in turns, and sums that do not round."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.collector.state.folding.sums import whole_sum
from stepwatch.collector.state.folding.turns import newest_of_each, turns
from tests.collector.made import step_rows


def test_chosen_rows_are_those_of_numpy() -> None:
    rows = step_rows(range(4), range(3))
    indices = np.array([7, 0, 7])
    mask = rows["step"] == 2
    for part in (rows, rows[::2]):
        assert chosen(part, indices % len(part)).tobytes() == part[indices % len(part)].tobytes()
    assert chosen(rows, mask).tobytes() == rows[mask].tobytes()
    assert chosen(rows[:0], mask[:0]).dtype == rows.dtype
    chosen(rows, indices)["step"] = 99
    assert not (rows["step"] == 99).any(), "a copy"


def test_of_two_rows_put_at_one_place_the_last_stays() -> None:
    rows, values = step_rows([0], range(3)), step_rows([5, 6], [1])
    put(rows, np.array([1, 1]), values)
    assert rows["step"].tolist() == [0, 6, 0] and rows["rank"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([], []),
        ([3, 5, 9], [[0, 1, 2]]),
        ([4, 7, 4], [[0, 1], [2]]),
        ([9, 1, 9, 9, 1, 2], [[0, 1, 5], [2, 4], [3]]),
    ],
)
def test_each_rank_once_a_turn_in_the_order_of_rows(
    ranks: list[int], expected: list[list[int]]
) -> None:
    assert [turn.tolist() for turn in turns(np.array(ranks, dtype=np.int64))] == expected


@pytest.mark.parametrize("count", [3, 2000])
def test_turns_are_the_same_when_asked_again_and_of_another_type(count: int) -> None:
    ranks = np.tile(np.arange(count)[::-1], 2)
    first = [turn.tolist() for turn in turns(ranks)]
    assert [turn.tolist() for turn in turns(ranks.copy())] == first
    assert [turn.tolist() for turn in turns(ranks.astype(np.int32))] == first
    assert [len(turn) for turn in turns(ranks[:count])] == [count], "other ranks, other turns"


def test_a_sum_of_large_numbers_is_exact() -> None:
    values = np.array([2**63, 2**63, 2**64 - 1, 1], dtype=np.uint64)
    assert whole_sum(values) == 2**63 * 2 + 2**64
    assert whole_sum(values[:0]) == 0


@pytest.mark.parametrize(
    ("ranks", "most", "expected", "dropped"),
    [
        ([], 2, [], []),
        ([1, 0, 1, 1], 2, [1, 2, 3], [0, 1]),
        ([1, 0, 1, 1], 3, [0, 1, 2, 3], [0, 0]),
        ([2, 2, 2, 0, 2], 1, [3, 4], [0, 0, 3]),
    ],
)
def test_the_newest_rows_of_each_rank_stay_in_their_order(
    ranks: list[int], most: int, expected: list[int], dropped: list[int]
) -> None:
    newest, left_out = newest_of_each(np.array(ranks, dtype=np.int32), most)
    assert (newest.tolist(), left_out.tolist()) == (expected, dropped)
