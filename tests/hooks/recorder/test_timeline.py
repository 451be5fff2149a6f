"""Self times add up to the step, to the nanosecond, however phases nest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.hooks.core import BUCKETS, COLLECTIVE, PIPELINE_WAIT, Timeline
from stepwatch.hooks.guard import Guard
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter
from stepwatch.signals.records import Kind, Op, Phase

Tree = tuple[int, int, Any]
"""(bucket, nanoseconds spent in it before and after each child, children)."""


class Hands:
    """A clock that moves only when the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RingWriter]:
    path = tmp_path_factory.mktemp("rings") / "0"
    opened = RingWriter(path, Identity("job", 0, 0, 1, "n", 1, 1))
    yield opened
    opened.words.release()


TREES = st.recursive(
    st.tuples(st.integers(0, BUCKETS - 1), st.integers(0, 10**12)).map(lambda leaf: (*leaf, ())),
    lambda inner: st.tuples(
        st.integers(0, BUCKETS - 1), st.integers(0, 10**12), st.lists(inner, max_size=4)
    ),
    max_leaves=25,
)


def play(
    timeline: Timeline, hands: Hands, tree: Tree, self_ns: list[int], moved: list[int]
) -> None:
    """Enter, spend time, visit children, leave; `own` collects the self time of each bucket."""
    bucket, spent, inner = tree
    arrived = 0
    if bucket == COLLECTIVE:
        arrived = timeline.enter_collective(9, int(Op.ALL_REDUCE))
    else:
        timeline.enter(bucket)
    for child in inner:
        hands.now += spent
        self_ns[bucket] += spent
        play(timeline, hands, child, self_ns, moved)
    hands.now += spent
    self_ns[bucket] += spent
    if bucket == COLLECTIVE:
        timeline.leave_collective(9, int(Op.ALL_REDUCE), 8, arrived)
        moved[0] += 1
    else:
        timeline.leave()


@settings(max_examples=200)
@given(steps=st.lists(st.lists(TREES, max_size=4), min_size=1, max_size=3), gap=st.integers(0, 999))
def test_self_times_are_exact_and_add_up(
    ring: RingWriter, steps: list[list[Tree]], gap: int
) -> None:
    hands = Hands()
    timeline = Timeline(ring, hands, Guard().misuse)
    timeline.begin()
    for trees in steps:
        began, self_ns, moved = hands.now, [0] * BUCKETS, [0]
        for tree in trees:
            hands.now += gap
            self_ns[Phase.OTHER] += gap
            play(timeline, hands, tree, self_ns, moved)
        end, duration, totals = timeline.end_step()
        assert totals == self_ns
        assert (end, duration) == (hands.now, hands.now - began)
        assert sum(totals) == duration
        counted = timeline.totals_of(9, int(Op.ALL_REDUCE))
        assert (counted.count if counted else 0) == moved[0]
        timeline.write_collectives(end)


def test_a_phase_open_across_the_boundary_is_split_there(ring: RingWriter) -> None:
    hands = Hands()
    timeline = Timeline(ring, hands, Guard().misuse)
    timeline.begin()
    timeline.enter(Phase.DATA)
    hands.now += 5
    assert timeline.end_step()[2][Phase.DATA] == 5
    hands.now += 7
    timeline.leave()
    hands.now += 1
    _, duration, totals = timeline.end_step()
    assert (duration, totals[Phase.DATA], totals[Phase.OTHER]) == (8, 7, 1)


@pytest.mark.parametrize("inside", [True, False])
def test_time_rebooked_to_collectives_never_exceeds_its_bucket(
    ring: RingWriter, inside: bool
) -> None:
    hands = Hands()
    timeline = Timeline(ring, hands, Guard().misuse)
    timeline.begin()
    timeline.enter(Phase.BACKWARD)
    hands.now += 10
    if not inside:
        timeline.leave()
    timeline.move_to_collective(int(Phase.BACKWARD), 4)
    timeline.move_to_collective(int(Phase.BACKWARD), 1_000_000)  # began in the step before
    timeline.move_to_collective(int(Phase.EVAL), 5)
    hands.now += 3
    _, duration, totals = timeline.end_step()
    assert totals[COLLECTIVE] == 10
    assert sum(totals) == duration == 13
    assert min(totals) >= 0


def test_leaving_what_was_not_entered_changes_nothing(ring: RingWriter) -> None:
    hands, guard = Hands(), Guard()
    timeline = Timeline(ring, hands, guard.misuse)
    timeline.begin()
    hands.now += 5
    timeline.leave()
    assert guard.errors == 1
    assert timeline.end_step()[1:] == (5, [5, *[0] * (BUCKETS - 1)])


def test_a_ring_closed_in_mid_phase_ends_what_is_shown_and_nothing_else(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", Identity("job", 0, 0, 1, "n", 1, 1))
    hands, guard = Hands(), Guard()
    timeline = Timeline(ring, hands, guard.misuse)
    timeline.begin()
    with timeline.buckets[Phase.FORWARD]:
        ring.close()  # as a signal handler does, between any two instructions
        hands.now += 3
        with timeline.buckets[Phase.BACKWARD]:
            hands.now += 4
    assert guard.errors == 0
    assert timeline.end_step()[2][Phase.FORWARD : Phase.BACKWARD + 1] == [3, 4]


def test_a_ring_closed_in_mid_collective_raises_nothing(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", Identity("job", 0, 0, 1, "n", 1, 1))
    timeline = Timeline(ring, Hands(), Guard().misuse)
    arrived = timeline.enter_collective(1, int(Op.ALL_REDUCE))
    ring.close()
    timeline.leave_collective(1, int(Op.ALL_REDUCE), 8, arrived)
    for number in (1, 2):
        timeline.step_outside(number)
        timeline.enter_microbatch(int(Phase.FORWARD), number)
        arrived = timeline.enter_collective(1, int(Op.ALL_REDUCE))
        timeline.leave_collective(1, int(Op.ALL_REDUCE), 8, arrived)
    counted = timeline.totals_of(1, int(Op.ALL_REDUCE))
    assert counted is not None
    assert counted.count == 3


def test_the_live_line_shows_phase_microbatch_and_wait(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", Identity("job", 0, 0, 1, "n", 1, 1))
    reader = RingReader(tmp_path / "0")
    hands = Hands()
    timeline = Timeline(ring, hands, Guard().misuse)
    timeline.begin()
    timeline.step = 2**32 - 1
    timeline.enter(PIPELINE_WAIT)
    assert (reader.live().waiting, reader.live().phase) == (True, Phase.OTHER)
    hands.now += 1
    timeline.enter_microbatch(int(Phase.BACKWARD), 3)
    live = reader.live()
    assert live == (hands.now, 2**32 - 1, 3, Phase.BACKWARD, False)
    hands.now += 1
    timeline.leave()
    assert reader.live() == (hands.now, 2**32 - 1, 0, Phase.OTHER, True)
    reader.close()


def test_the_collective_line_says_inside_until_the_newest_has_ended(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", Identity("job", 0, 0, 1, "n", 1, 1))
    reader = RingReader(tmp_path / "0")
    hands = Hands()
    timeline = Timeline(ring, hands, Guard().misuse)

    def line() -> tuple[int, bool]:
        return reader.collective().entered, reader.collective().inside

    assert line() == (0, False)
    timeline.arrive(0x12345678, int(Op.BROADCAST), 400)
    first = timeline.entered
    assert reader.collective() == (hands.now, 1, 0x5678, Op.BROADCAST, True, 400)
    timeline.arrive(1, int(Op.ALL_REDUCE))
    timeline.step_outside(first)  # ended late, after the next had begun
    assert line() == (2, True)
    timeline.step_outside(timeline.entered)
    assert line() == (2, False)
    timeline.leave_collective(1, 1, 0, timeline.enter_collective(1, 1))
    assert line() == (3, False)
    reader.close()


def test_collectives_become_one_record_for_each_group_and_op(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "0", Identity("job", 0, 0, 1, "n", 1, 1))
    hands = Hands()
    timeline = Timeline(ring, hands, Guard().misuse)
    timeline.begin()

    def collective(group: int, op: Op, nbytes: int, spent: int) -> None:
        arrived = timeline.enter_collective(group, int(op))
        hands.now += spent
        timeline.leave_collective(group, int(op), nbytes, arrived)

    for group, spent in ((1, 5), (2, 7), (1, 20), (1, 1)):
        collective(group, Op.ALL_GATHER, 100, spent)
    timeline.write_collectives(hands.now)
    timeline.write_collectives(hands.now)
    rows = RingReader(tmp_path / "0").read().rows[Kind.COLLECTIVE]
    table: Callable[[str], list[int]] = lambda name: rows[name].tolist()  # noqa: E731
    assert (table("group"), table("count"), table("bytes")) == ([1, 2], [3, 1], [300, 100])
    assert (table("exposed_ns"), table("longest_ns")) == ([26, 7], [20, 7])
    assert table("first_arrival_ns") == [1_000, 1_005]
