"""Text from elsewhere within HTML, as content or in an attribute's quotes."""

from __future__ import annotations

from html import escape

from stepwatch.signals.plain_text import plain_line


def html(text: str) -> str:
    """`text` as it shows: no element, no entity, no change of direction.

    >>> html("<b>a & b</b>")
    '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    return escape(plain_line(text))
