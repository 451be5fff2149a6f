"""Escape external text for HTML, as content or in a quoted attribute."""

from __future__ import annotations

from html import escape

from stepwatch.signals.plain_text import plain_line


def html(text: str) -> str:
    """Return `text` escaped: no element, no entity, no change in text direction.

    >>> html("<b>a & b</b>")
    '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    return escape(plain_line(text))
