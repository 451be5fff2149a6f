"""Whatever the order in which segments are handed over, each is applied once, in its place."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.state.holding.log_cursor import LogCursor
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.wire import Segment
from tests.collector.made import segment

LOG = [segment(number, {}) for number in range(1, 13)]
NOW = Received(0.0, 0.0)


def taken_sequences(cursor: LogCursor) -> list[int]:
    return [segment.key.sequence for segment in taken_segments(cursor)]


def taken_segments(cursor: LogCursor) -> list[Segment]:
    return [item for item, _ in cursor.take() if isinstance(item, Segment)]


def offer(cursor: LogCursor, *positions: int) -> None:
    for position in positions:
        cursor.offer(position, LOG[position - 1], NOW)


def test_only_the_run_without_a_gap_is_taken() -> None:
    cursor = LogCursor(4)
    offer(cursor, 8, 6, 5)
    assert taken_sequences(cursor) == [5, 6]
    assert (cursor.applied, cursor.missing(9)) == (6, range(7, 10))
    assert cursor.waits(8) and not cursor.waits(7)
    offer(cursor, 7, 3)
    assert taken_sequences(cursor) == [7, 8]
    assert (cursor.waiting_bytes, len(cursor.missing(8))) == (0, 0)


def test_what_the_log_no_longer_holds_is_passed_over() -> None:
    cursor = LogCursor()
    offer(cursor, 3, 9)
    cursor.covered(6, cursor.drops)
    assert taken_sequences(cursor) == [3] and cursor.applied == 6
    cursor.covered(8, cursor.drops)
    assert taken_sequences(cursor) == [9]


def test_a_reading_from_before_what_waited_was_given_back_covers_nothing() -> None:
    cursor = LogCursor()
    offer(cursor, 1, 2)
    drops_before = cursor.drops
    cursor.drop()
    cursor.covered(2, drops_before)
    assert taken_sequences(cursor) == [] and cursor.missing(2) == range(1, 3)


def test_what_was_read_and_given_back_before_it_was_taken_is_read_again() -> None:
    cursor = LogCursor()
    offer(cursor, 1, 2)
    cursor.covered(2, cursor.drops)
    cursor.drop()
    assert taken_sequences(cursor) == [] and cursor.missing(2) == range(1, 3)
    offer(cursor, 1, 2)
    assert taken_sequences(cursor) == [1, 2]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_segment_is_applied_once_in_the_order_of_the_log(data: st.DataObject) -> None:
    """Hand-overs in any order, some never; room that runs out; pages read from the log between."""
    lost = data.draw(st.sets(st.integers(1, len(LOG))), label="never handed over")
    order = data.draw(st.permutations(range(1, len(LOG) + 1)), label="order")
    cursor, applied = LogCursor(), list[Segment]()
    for position in order:
        if position not in lost:
            offer(cursor, position)
        step = data.draw(st.sampled_from(["nothing", "take", "read", "drop"]))
        if step == "drop":
            cursor.drop()
        if step == "read":
            read(cursor, len(LOG), page=data.draw(st.integers(1, 5)))
        if step != "nothing":
            applied += taken_segments(cursor)
    while cursor.applied < len(LOG):
        read(cursor, len(LOG), page=3)
        applied += taken_segments(cursor)
    assert applied == LOG


def read(cursor: LogCursor, end: int, page: int) -> None:
    """What a reader of the log does."""
    drops, missing = cursor.drops, cursor.missing(end)
    positions = list(missing)[:page]
    offer(cursor, *(position for position in positions if not cursor.waits(position)))
    if positions:
        cursor.covered(positions[-1], drops)
