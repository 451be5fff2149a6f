"""Text from elsewhere loses everything that a terminal obeys, and keeps all human writing."""

from __future__ import annotations

import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.signals.plain_text import REPLACEMENT, LineFormatter, plain_line, plain_lines

DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
SCRIPTS = [
    "\u00df\u00e9",
    "\u65e5\u672c\u8a9e",
    "\u0645\u06cc\u200c\u062e\u0648",
    "a\u00a0b",
    "x \u2192 y",
]
SCRIPTS += ["\U0001f469\u200d\U0001f680"]
OBEYED = ["\x1b", "\x07", "\x9b", "\x00", "\x7f", "\u202e", "\ufeff", "\ud800", "\U000e0041"]


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    for shown, allowed in ((plain_lines(text), "\n\t"), (plain_line(text), "")):
        assert {
            character for character in shown if unicodedata.category(character) in ("Cc", "Cs")
        } <= set(allowed)
        directions = {unicodedata.bidirectional(character) for character in shown}
        assert directions.isdisjoint(
            {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        )
        shown.encode()


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Cn", "Zl", "Zp"])))
def test_what_people_write_stays(text: str) -> None:
    assert plain_lines(text) == text == plain_line(text)


@pytest.mark.parametrize("text", SCRIPTS)
def test_every_script_stays(text: str) -> None:
    assert plain_line(text) == text


@pytest.mark.parametrize(
    "text", ["\x1b", "\x07", "\x9b", "\x00", "\x7f", "\u202e", "\ufeff", "\ud800", "\U000e0041"]
)
def test_what_goes_leaves_a_mark(text: str) -> None:
    assert plain_lines(f"a{text}b") == f"a{REPLACEMENT}b"


@pytest.mark.parametrize("text", ["\n", "\r\n", "\t", "\r", "\v", "\x85", "\u2028"])
def test_a_break_is_a_space_on_one_line(text: str) -> None:
    assert plain_line(f"a{text}b") == "a b"


def test_a_log_line_is_one_line_and_a_traceback_keeps_its_lines() -> None:
    form = LineFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError("\x1b[2Jboom")
    except ValueError as error:
        raised = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "%s", ("a\n\x1bb",), raised)
    first, *traceback = form.format(record).splitlines()
    assert first == f"ERROR a {REPLACEMENT}b"
    assert (
        traceback[0].startswith("Traceback")
        and traceback[-1] == f"ValueError: {REPLACEMENT}[2Jboom"
    )
