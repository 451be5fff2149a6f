"""Parts of a log that could not be read, and the share of time that they are."""

from __future__ import annotations

from stepwatch.collector.state.holding.unread import MAX_UNREAD, Unread, unread_share, with_part


def test_neighbours_are_one_part_and_their_number_is_bounded() -> None:
    unread_parts: list[Unread] = []
    for first, last in ((1, 10), (21, 30), (31, 40)):
        unread_parts = with_part(unread_parts, Unread(first, last, 10, float(first), float(last)))
    assert unread_parts == [Unread(1, 10, 10, 1.0, 10.0), Unread(21, 40, 20, 21.0, 40.0)]
    for position in range(50, 50 + 4 * MAX_UNREAD, 2):
        unread_parts = with_part(unread_parts, Unread(position, position, 1, 0.0, 1.0))
    assert len(unread_parts) == MAX_UNREAD
    assert sum(part.segments for part in unread_parts) == 30 + 2 * MAX_UNREAD


def test_time_counts_once_and_within_the_window() -> None:
    parts = [Unread(1, 2, 2, 10.0, 30.0), Unread(5, 6, 2, 20.0, 40.0)]
    assert unread_share(parts, 0.0, 100.0) == 0.3
    assert unread_share(parts, 35.0, 45.0) == 0.5
    assert unread_share(parts, 50.0, 60.0) == 0.0
    assert unread_share(parts, 20.0, 20.0) == 0.0
