"""Ranks are listed in order and shortened; a wrong word is answered with a close one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.signals.phrases import (
    closest_hint,
    do_text,
    numbers_text,
    one_of_text,
    ranks_text,
)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], "no ranks"),
        ([3], "rank 3"),
        ([2, 3], "ranks 2-3"),
        ([3, 2, 5, 4, 4], "ranks 2-5"),
        ([0, 2, 4], "ranks 0, 2, 4"),
        ([0, 1, 2, 7, 9, 10], "ranks 0-2, 7, 9-10"),
        (range(0, 18, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14, ... (9 in all)"),
    ],
)
def test_ranks_are_named_in_order(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_one_rank_is_no_one_of_several() -> None:
    assert (one_of_text([3]), do_text([3])) == ("rank 3", "rank 3 does")
    assert one_of_text([2, 3]) == "one of ranks 2-3"
    assert do_text([2, 3]) == "ranks 2-3 do"


def test_ranks_may_come_as_an_array() -> None:
    assert ranks_text(np.array([5, 1], dtype=np.int32), most=1) == "ranks 1, ... (2 in all)"


@given(st.sets(st.integers(0, 300)))
def test_no_number_is_lost_or_added(numbers: set[int]) -> None:
    parsed: set[int] = set()
    for part in filter(None, numbers_text(numbers, most=1000).split(", ")):
        first, _, last = part.partition("-")
        parsed |= set(range(int(first), int(last or first) + 1))
    assert parsed == numbers


def test_a_close_word_is_offered() -> None:
    words = ["forward", "backward", "optimizer"]
    assert closest_hint("forwad", words) == "did you mean 'forward'?"
    assert closest_hint("forwad", iter(words)) == "did you mean 'forward'?"
    assert closest_hint("xyz", words) == "known are forward, backward, optimizer"
    assert closest_hint("xyz", words, list_known=False) == ""
    assert closest_hint("xyz", []) == ""
