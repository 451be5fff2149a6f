"""Makes foreign text safe for a terminal: nothing in it moves, colours, hides or copies.

A terminal obeys control characters (ESC and CSI; OSC 52 among them writes the clipboard), and shows
text behind a bidirectional override in another order than it is read. Each of these characters
becomes `REPLACEMENT`, so that a reader sees its place.
"""

from __future__ import annotations

import logging
import re

REPLACEMENT = "\ufffd"

_BREAKS = re.compile("\r\n|[\t\n\v\f\r\x85\u2028\u2029]")
_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1, except tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, overrides and isolates
    "\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible
    "\ufdd0-\ufdef\ufffe\uffff"  # no characters: a program's own marks
    "\ud800-\udfff"  # halves of a pair, which no encoding takes
    "\U000e0000-\U000e007f]"  # tags: a second, invisible text
)


def plain_lines(text: str) -> str:
    """Return `text` without characters that a terminal obeys; tabs and newlines stay.

    >>> plain_lines("loss \\x1b[31mnan\\nstep 3")
    'loss \ufffd[31mnan\\nstep 3'
    """
    return _COMMANDS.sub(REPLACEMENT, text)


def plain_line(text: str) -> str:
    """Return the same on one line: characters that break or align a line become spaces.

    >>> plain_line("no space left\\n# All is well")
    'no space left # All is well'
    """
    return plain_lines(_BREAKS.sub(" ", text))


class LineFormatter(logging.Formatter):
    """Keeps a log message on one line, whatever it quotes; only a traceback has several lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without the traceback below it."""
        return plain_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback if there is one."""
        return plain_lines(super().format(record))
