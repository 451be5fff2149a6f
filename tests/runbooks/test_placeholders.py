"""Filling values into commands that a reader pastes into a shell."""

from __future__ import annotations

import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.runbooks import placeholders


def test_known_values_are_filled_and_unknown_ones_stay_visible() -> None:
    text = placeholders.fill("Rank {rank} on {node}", {"rank": "2"})
    assert text == "Rank 2 on <node>\n"


def test_an_empty_value_is_unknown() -> None:
    assert placeholders.fill("on {node}", {"node": "  "}) == "on <node>\n"


def test_a_value_is_not_filled_again() -> None:
    assert placeholders.fill("{cause}", {"cause": "{rank}", "rank": "2"}) == "{rank}\n"


def test_prose_keeps_a_value_as_it_is() -> None:
    assert placeholders.fill("cause: {cause}", {"cause": "CPU taken"}) == "cause: CPU taken\n"


def test_a_value_cannot_become_an_option() -> None:
    assert placeholders.fill("`ssh {node}`", {"node": "-oProxyCommand=x"}) == "`ssh <node>`\n"


def test_a_url_in_a_command_needs_no_quotes() -> None:
    filled = placeholders.fill("`curl {collector}/x`", {"collector": "http://127.0.0.1:8480"})
    assert filled == "`curl http://127.0.0.1:8480/x`\n"


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_value_breaks_out_of_a_command(value: str) -> None:
    fenced = placeholders.fill("```sh\nrun {cause} end\n```", {"cause": value}).split("\n")
    assert fenced[0] == "```sh"
    assert fenced[2:] == ["```", ""]
    if "<cause>" not in fenced[1]:
        words = shlex.split(fenced[1])
        assert (len(words), words[0], words[2]) == (3, "run", "end")
        assert not words[1].startswith("-")


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_value_adds_a_line_or_code_to_prose(value: str) -> None:
    filled = placeholders.fill("because {cause}.", {"cause": value})
    assert filled.count("\n") == 1
    assert "`" not in filled


def test_unknown_placeholders_are_found_with_their_line() -> None:
    assert list(placeholders.unknown("a {rank}\n`b {host}`\n")) == [(2, "host")]


def test_code_is_what_is_in_fences_and_backquotes() -> None:
    text = "say `one` and\n```sh\ntwo\n```\nno code, then `three`\n"
    assert list(placeholders.code(text)) == [(1, "one"), (3, "two"), (5, "three")]
