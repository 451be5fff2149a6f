"""Waiting is followed to its end: a rank that waits for nobody, one that nobody sees, a circle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect.wait_graph import (
    Answer,
    Place,
    members_of,
    who_holds_up,
)

WORLD = Place("all_reduce", 1, "0-3", frozenset(range(4)))
PAIR = Place("all_gather", 2, "2,3", frozenset({2, 3}))


def test_the_rank_outside_holds_others_up_through_a_chain_of_groups() -> None:
    answer = who_holds_up({0: WORLD, 1: WORLD, 2: PAIR}, [3])
    assert answer == Answer(holding=(3,))


def test_a_rank_that_is_no_member_of_what_others_wait_in_holds_nobody_up() -> None:
    place = Place("all_reduce", 3, "0,1,2", frozenset({0, 1, 2}))
    assert who_holds_up({0: place, 1: place}, [2, 3]).holding == (2,)


def test_a_rank_that_nobody_observes_may_be_the_one() -> None:
    assert who_holds_up({0: WORLD, 1: WORLD}, [], [2, 3]).unobserved == (2, 3)
    answer = who_holds_up({0: WORLD, 1: WORLD}, [2], [3])
    assert (answer.holding, answer.unobserved) == ((2,), (3,))


def test_two_groups_entered_in_crossed_order_are_a_circle_with_both_named() -> None:
    first_place = Place("all_reduce", 5, "0,1", frozenset({0, 1}))
    second_place = Place("all_reduce", 6, "0-2", frozenset({0, 1, 2}))
    answer = who_holds_up({0: first_place, 1: second_place, 2: second_place}, [])
    assert answer.holding == ()
    assert [link.words for link in answer.cycle] == [
        "rank 0 waits in all_reduce of group 0,1 for rank 1",
        "ranks 1-2 wait in all_reduce of group 0-2 for rank 0",
    ]


def test_a_circle_counts_only_where_no_rank_stands_behind_it() -> None:
    first_place = Place("all_reduce", 5, "0,1,3", frozenset({0, 1, 3}))
    second_place = Place("all_reduce", 6, "0-2", frozenset({0, 1, 2}))
    answer = who_holds_up({0: first_place, 1: second_place, 2: second_place}, [3])
    assert (answer.holding, answer.cycle) == ((3,), ())


def test_different_operations_of_one_group_are_a_circle() -> None:
    gather = WORLD._replace(op="all_gather")
    answer = who_holds_up({0: WORLD, 1: WORLD, 2: gather, 3: WORLD}, [])
    assert {link.place.op for link in answer.cycle} == {"all_reduce", "all_gather"}


def test_a_collective_that_all_members_are_inside_is_said_to_be_complete() -> None:
    answer = who_holds_up(dict.fromkeys(range(4), WORLD), [])
    assert answer == Answer(complete=(WORLD,))


def test_of_a_group_that_nobody_names_only_ranks_outside_may_be_missing() -> None:
    unknown = Place("all_reduce", 9)
    place = Place("all_reduce", 10)
    assert who_holds_up({0: unknown, 1: place}, []) == Answer()
    assert who_holds_up({0: unknown, 1: place}, [2]).holding == (2,)


def test_who_waits_for_an_unknown_neighbour_closes_no_circle() -> None:
    assert who_holds_up({0: WORLD, 1: WORLD, 2: WORLD}, [], waiting=[3]).cycle == ()


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0-3", {0, 1, 2, 3}),
        ("0,2", {0, 2}),
        ("7", {7}),
        ("0,2,...", None),
        ("", None),
        ("a-b", None),
        ("0-99999999999", None),
    ],
)
def test_ranks_of_a_group_as_text(text: str, ranks: set[int] | None) -> None:
    assert members_of(text) == ranks


GROUPS = st.frozensets(st.integers(0, 7), min_size=2)


@given(st.lists(GROUPS, min_size=1, max_size=4), st.data())
def test_no_rank_that_waits_is_named_and_a_circle_is_one(
    groups: list[frozenset[int]], data: st.DataObject
) -> None:
    places = [
        Place("all_reduce", number, str(number), ranks) for number, ranks in enumerate(groups)
    ]
    inside: dict[int, Place] = {}
    for rank in range(8):
        own_places = [place for place in places if place.members and rank in place.members]
        chosen = data.draw(st.sampled_from([None, *own_places]))
        if chosen is not None:
            inside[rank] = chosen
    free = sorted({*range(8)} - inside.keys())
    unseen = data.draw(st.sets(st.sampled_from(free))) if free else set()
    answer = who_holds_up(inside, [rank for rank in free if rank not in unseen], unseen)
    assert inside.keys().isdisjoint((*answer.holding, *answer.unobserved))
    assert unseen.issuperset(answer.unobserved)
    for index, link in enumerate(answer.cycle):
        following = answer.cycle[(index + 1) % len(answer.cycle)]
        assert set(link.missing) & set(following.ranks), "each waits for one of the next"
    if inside:
        assert answer != Answer(), "somebody, somewhere, or the collective itself"
