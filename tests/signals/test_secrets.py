"""Secrets of 140 shapes leave neither the last lines of a rank nor its settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from stepwatch.hooks.run_facts.flatten import flatten
from stepwatch.signals.secrets.rules import rules
from stepwatch.signals.stderr.lines import last_lines

from .secret_shapes import HARMLESS, LINES, SETTINGS

_MARKED = re.compile("<(.*)>")
_LEAST_PART = 4
"""Characters of a secret that may stay: the kind of a token is in its first letters."""


def _plain(value: Any) -> Any:
    """Return the shape without the marks around its secret."""
    if isinstance(value, str):
        return _MARKED.sub(r"\1", value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(inner) for inner in value)
    return value


def _secrets(value: Any) -> Iterator[str]:
    """Return the parts that the marks of a shape enclose."""
    if isinstance(value, str):
        yield from _MARKED.findall(value)
    elif isinstance(value, dict):
        yield from _secrets(list(value.values()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner)


@pytest.mark.parametrize("shape", LINES)
def test_a_secret_leaves_no_log_line(shape: str) -> None:
    (secret,) = _secrets(shape)
    (line,) = last_lines(_plain(shape).encode(), cut=False)
    assert secret[_LEAST_PART:] not in line and "(withheld" in line


@pytest.mark.parametrize("shape", SETTINGS, ids=str)
def test_a_secret_leaves_no_setting(shape: tuple[str, object]) -> None:
    name, value = shape
    (secret,) = _secrets(value)
    shown = list(flatten({name: _plain(value)}, "config"))
    assert not any(secret[_LEAST_PART:] in text for _, text in shown)
    assert any("(withheld" in text for _, text in shown)


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_without_a_secret_stays(line: str) -> None:
    assert last_lines(line.encode(), cut=False) == [line]


def test_the_words_around_a_withheld_flag_stay() -> None:
    words = ["train.py", "--hub-token", "Q7xZk9JvT2mW", "--lr", "3"]
    ((_, text),) = flatten({"argv": words}, "config")
    assert text == "[train.py, --hub-token, (withheld), --lr, 3]"


def test_a_withheld_text_names_its_form() -> None:
    (line,) = last_lines(b"remote: ghp_Q7xZk9JvT2mWb4Rn8LcY is expired", cut=False)
    assert line == "remote: (withheld: GitHub token) is expired"


def test_every_rule_has_keywords_a_bound_and_a_shape() -> None:
    """An unbounded repeat would take seconds on a hostile line."""
    lines = [_plain(shape).lower() for shape in LINES]
    for rule in rules():
        assert not re.search(r"(?<!\\)[*+](?![\w./=+%@:-]*\])", rule.source), rule.name
        assert any(rule.pattern.search(_plain(shape)) for shape in LINES), rule.name
        assert any(word in line for word in rule.keywords for line in lines), rule.name
