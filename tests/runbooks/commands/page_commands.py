"""Every command of a page, taken from its Markdown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from stepwatch.runbooks import placeholders

_SEPARATOR = re.compile(r"[;|&]+")
_REDIRECTION = re.compile(r"[<>]+")


class Command(NamedTuple):
    """One line of shell: its line number, its text, and whether it is in a fence."""

    line: int
    text: str
    is_fenced: bool


def commands_of(markdown: str) -> Iterator[Command]:
    """Yield fenced lines, and text between backquotes with several words."""
    fenced = {number for number, _ in _fenced_lines(markdown)}
    for number, text in placeholders.code(markdown):
        is_fenced = number in fenced
        if is_fenced or " " in text.strip():
            yield Command(number, text.strip(), is_fenced)


def _fenced_lines(markdown: str) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(markdown.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            yield number, line


def simple_commands(text: str) -> Iterator[list[str]]:
    """Words of each command of a line, between `|`, `;` and `&&`; redirections are left out.

    Raises:
        ValueError: a quotation is not closed.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    tokens = iter(lexer)
    for token in tokens:
        if _SEPARATOR.fullmatch(token):
            yield words
            words = []
        elif _REDIRECTION.fullmatch(token):
            next(tokens, None)
        else:
            words.append(token)
    if words:
        yield words
