"""Escapes foreign text in Markdown: it shows literally and creates no element.

This follows CommonMark 0.31 and GitHub's tables. `<` and `&` become entities, since a renderer
that ignores a backslash before them would pass HTML through. A bare address is not escaped: some
renderers link it to itself, and its target is visible.
"""

from __future__ import annotations

import re

from stepwatch.signals.plain_text import plain_line

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;"})
_INLINE = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)|~(?=~)|(?<=~)~")
_BLOCK = re.compile(r"(\d{1,9}(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|[>:]|[-+=](?:[-=\s]|$)))")
"""Positions where a block would begin, up to the character that begins it."""


class Markdown(str):
    """Markdown whose values are already escaped: it is not escaped again."""

    __slots__ = ()


def inline(text: str) -> str:
    """Escape `text` within a line: in a heading, a table cell, or after other words.

    >>> inline("<img src=x> [x](y) a_b | c")
    '&lt;img src=x> \\\\[x\\\\](y) a_b \\\\| c'
    """
    if isinstance(text, Markdown):
        return text
    return _INLINE.sub(r"\\\g<0>", plain_line(text).translate(_ENTITIES))


def block(text: str) -> str:
    """Escape `text` as its own line or at a list item's start: it begins no other block.

    >>> block("# Resolved"), block("2. all is well"), block("-3 ms")
    ('\\\\# Resolved', '2\\\\. all is well', '-3 ms')
    """
    if isinstance(text, Markdown):
        return text
    line = inline(text).strip()
    begins = _BLOCK.match(line)
    return line if begins is None else f"{begins[1]}\\{line[begins.end() :]}"
