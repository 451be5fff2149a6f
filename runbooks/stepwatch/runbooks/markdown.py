"""Text from elsewhere within Markdown: it shows as it is and makes no element.

CommonMark 0.31 and GitHub's tables; `<` and `&` become entities, since a renderer that knows no
backslash before them would pass HTML on. A bare address stays one: some renderers make it a link
to itself, which says where it leads.
"""

from __future__ import annotations

import re

from stepwatch.signals.plain_text import plain_line

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;"})
_INLINE = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)|~(?=~)|(?<=~)~")
_BLOCK = re.compile(r"(\d{1,9}(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|[>:]|[-+=](?:[-=\s]|$)))")
"""Where a block would begin, up to the character that begins it."""


class Markdown(str):
    """Markdown of our own, with what was filled in escaped: it is not escaped again."""

    __slots__ = ()


def inline(text: str) -> str:
    """`text` within a line: in a heading, a table's cell, or behind other words.

    >>> inline("<img src=x> [x](y) a_b | c")
    '&lt;img src=x> \\\\[x\\\\](y) a_b \\\\| c'
    """
    if isinstance(text, Markdown):
        return text
    return _INLINE.sub(r"\\\g<0>", plain_line(text).translate(_ENTITIES))


def block(text: str) -> str:
    """`text` as a line of its own, or where a list's item begins; it begins nothing else.

    >>> block("# Resolved"), block("2. all is well"), block("-3 ms")
    ('\\\\# Resolved', '2\\\\. all is well', '-3 ms')
    """
    if isinstance(text, Markdown):
        return text
    line = inline(text).strip()
    begins = _BLOCK.match(line)
    return line if begins is None else f"{begins[1]}\\{line[begins.end() :]}"
