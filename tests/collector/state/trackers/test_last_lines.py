"""Last lines by rank: the newest report counts, and nothing that is sent can grow or do harm."""

from __future__ import annotations

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers import last_lines
from stepwatch.collector.state.trackers.last_lines import LastLines, LastWords
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.made import segment, state_rows


def line_rows(*rows: tuple[int, int, str]) -> Rows:
    ranks, kept_codes, texts = zip(*rows, strict=True)
    columns = {"rank": ranks, "kept": kept_codes, "text": [text.encode() for text in texts]}
    return make_rows(Kind.LAST_LINE, len(rows), **columns)


def attempt_of(*parts: Rows) -> Attempt:
    attempt = Attempt(0)
    states = state_rows(range(4), 4, 1.0, 1, 0.1)
    attempt.apply(segment(1, {Kind.RANK_STATE: states}), Received(1.0, 1.0))
    for number, rows in enumerate(parts):
        attempt.apply(segment(2 + number, {Kind.LAST_LINE: rows}), Received(2.0, 2.0))
    return attempt


def words(*parts: Rows) -> dict[int, LastWords]:
    return attempt_of(*parts).tracker(LastLines).by_rank


def test_lines_of_a_rank_in_their_order_and_only_the_newest_report() -> None:
    rows = line_rows((1, 1, "a"), (2, 0, "not kept"), (1, 1, "b"), (9, 1, "no such rank"))
    assert words(rows) == {1: LastWords(("a", "b")), 2: LastWords((), "not kept")}
    assert words(rows, line_rows((1, 1, "c")))[1] == LastWords(("c",))


def test_of_a_version_that_sends_no_lines_nothing_is_known() -> None:
    assert words() == {}


def test_what_moves_a_cursor_is_replaced_and_lines_are_bounded() -> None:
    assert words(line_rows((0, 1, "\x1b[2Jgone\n")))[0].lines == ("\ufffd[2Jgone ",)
    many = line_rows(*[(0, 1, str(number)) for number in range(99)])
    assert len(words(many)[0].lines) == last_lines.MAX_LINES
    assert attempt_of(many).tracker(LastLines).cells > 0
