"""Placeholders in braces for runbooks, and how values replace them.

Filled-in commands will be pasted into a root shell at 3 a.m., and some values (a cause, a node
name) come from other machines. Inside code a value is therefore quoted for the shell. A value that
could be read as an option, or would end the code, is not filled in. In prose a value creates no
Markdown element.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from stepwatch.signals.plain_text import plain_line

from .markdown import inline

NAMES = (
    "job",
    "attempt",
    "rank",
    "node",
    "phase",
    "cause",
    "since_step",
    "incident",
    "collector",
)
"""The closed list of placeholders."""

VALUE_LIMIT = 200
"""Maximum characters kept from a value."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_FENCE = "```"


def unknown(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield line number and name for each placeholder outside the closed list."""
    for number, line in enumerate(markdown.splitlines(), start=1):
        for name in _PLACEHOLDER.findall(line):
            if name not in NAMES:
                yield number, name


def code(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text for all code in fences or backquotes."""
    for number, pieces in enumerate(_pieces(markdown), start=1):
        for piece, is_code in pieces:
            if is_code and piece.strip():
                yield number, piece


def fill(markdown: str, values: Mapping[str, str]) -> str:
    """Replace placeholders with values; one without a value stays visible as `<name>`."""
    lines = []
    for pieces in _pieces(markdown):
        filled = [_fill_piece(piece, is_code, values) for piece, is_code in pieces]
        lines.append("`".join(filled))
    return "\n".join(lines) + "\n"


def _pieces(markdown: str) -> Iterator[list[tuple[str, bool]]]:
    """Yield, for each line, its pieces between backquotes, and whether each is code."""
    fenced = False
    for line in markdown.splitlines():
        if line.lstrip().startswith(_FENCE):
            fenced = not fenced
            # The marker itself is three empty pieces and the language.
            yield [(piece, False) for piece in line.split("`")]
        elif fenced:
            yield [(line, True)]
        else:
            yield [(piece, index % 2 == 1) for index, piece in enumerate(line.split("`"))]


def _fill_piece(piece: str, is_code: bool, values: Mapping[str, str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = " ".join(plain_line(values.get(match[1], "")[:VALUE_LIMIT]).split())
        if not value or value.startswith("-") or (is_code and "`" in value):
            return f"<{match[1]}>"
        return shlex.quote(value) if is_code else inline(value.replace("`", "'"))

    return _PLACEHOLDER.sub(value_of, piece)
