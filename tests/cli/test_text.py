"""Tables and prose read the same on a terminal and in a pipe, at 80 and at 140 columns."""

from __future__ import annotations

import re
import sys
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.cli import terminal, text

WORDS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)


def test_a_table_aligns_names_to_the_left_and_numbers_to_the_right() -> None:
    rows = [["llama", "12"], ["gpt", "1,024"]]
    assert text.table(["job", "ranks"], rows, "").splitlines() == [
        "job    ranks",
        "llama     12",
        "gpt    1,024",
    ]


def test_a_table_shows_cells_as_they_are_without_colours_or_markup() -> None:
    shown = text.table(["[bold]name", "value"], [["[red]x[/]", "\u65e5\u672c"]], "")
    assert "[bold]name" in shown and "[red]x[/]" in shown and "\x1b" not in shown


def test_a_long_name_is_neither_cut_nor_wrapped() -> None:
    name = "a" * 200
    assert text.table(["job", "step"], [[name, "1"]], "").splitlines()[1] == f"{name}     1"


@given(st.lists(WORDS, min_size=1, max_size=60), st.sampled_from([text.NARROW, text.WIDE]))
def test_prose_keeps_every_word_and_the_width(words: list[str], width: int) -> None:
    lines = text.wrapped(" ".join(words), "  ", width, hang=2).splitlines()
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(words).split())
    assert all(len(line) <= width for line in lines) and lines[0].startswith("  ")
    assert all(line.startswith("    ") for line in lines[1:])


def test_an_option_is_not_broken_at_its_hyphens() -> None:
    command = "stepwatch runbook TrainingHang --token-file /etc/stepwatch/token " * 3
    for line in text.wrapped(command, "", 40).splitlines():
        assert not line.endswith("-")


@pytest.mark.parametrize(("terminal", "columns"), [("20", 80), ("100", 100), ("400", 140)])
def test_prose_is_as_wide_as_the_terminal_within_limits(
    monkeypatch: pytest.MonkeyPatch, terminal: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", terminal)
    assert text.columns() == columns


def test_what_is_not_known_is_a_word() -> None:
    assert {text.share(None), text.number(None), text.count(None)} == {text.UNKNOWN}


def test_a_long_command_goes_on_behind_a_backslash_and_stays_one_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = f"stepwatch runbook TrainingHang --incident {'a' * 12} --store /tmp/{'b' * 50}/store.db"
    assert text.command(words, "  ", 78) == f"  {words}", "a pipe gets it in one line"
    monkeypatch.setattr(sys, "stdout", Screen())
    shown = text.command(words, "  ", text.NARROW - 2)
    assert "\\\n" in shown and shown.replace("\\\n", "").split() == words.split()
    assert max(len(line) for line in shown.splitlines()) <= text.NARROW
    assert text.command("stepwatch status", "  ", 78) == "  stepwatch status"


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def test_states_are_coloured_on_a_terminal_only_and_not_where_nobody_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    rows = [["llama", "failed"]]
    plain = text.table(["job", "state"], rows)
    assert "\x1b" not in plain and text.painted("failed") == "failed"
    monkeypatch.setattr(sys, "stdout", Screen())
    shown = terminal.shown(text.table(["job", "state"], rows))
    assert re.sub("\x1b\\[[0-9;]*m", "", shown) == plain != shown
    assert terminal.shown(text.painted("FAILED")) == "\x1b[31mFAILED\x1b[0m"
    assert text.painted("a name") == "a name"
    monkeypatch.setenv("NO_COLOR", "1")
    assert text.table(["job", "state"], rows) == plain and text.painted("failed") == "failed"
