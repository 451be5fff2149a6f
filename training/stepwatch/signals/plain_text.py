"""Text from elsewhere as a terminal may be given it: nothing in it moves, colours, hides or copies.

A terminal obeys control characters (ESC and CSI, of which OSC 52 writes the clipboard), and shows
text behind a bidirectional override in another order than it is read. Each such character becomes
`REPLACEMENT`, so that a reader sees that there was something.
"""

from __future__ import annotations

import logging
import re

REPLACEMENT = "\ufffd"

_BREAKS = re.compile("\r\n|[\t\n\v\f\r\x85\u2028\u2029]")
_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1, but for tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, overrides and isolates
    "\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # seen as nothing
    "\ufdd0-\ufdef\ufffe\uffff"  # no characters: a program's own marks
    "\ud800-\udfff"  # halves of a pair, which no encoding takes
    "\U000e0000-\U000e007f]"  # tags: a second text that nobody sees
)


def plain_lines(text: str) -> str:
    """`text` without characters that a terminal obeys; tabs and newlines stay.

    >>> plain_lines("loss \\x1b[31mnan\\nstep 3")
    'loss \ufffd[31mnan\\nstep 3'
    """
    return _COMMANDS.sub(REPLACEMENT, text)


def plain_line(text: str) -> str:
    """The same on one line: whatever breaks a line, or aligns it, is a space.

    >>> plain_line("no space left\\n# All is well")
    'no space left # All is well'
    """
    return plain_lines(_BREAKS.sub(" ", text))


class LineFormatter(logging.Formatter):
    """A log line is one line, whatever its message quotes; of a traceback only lines are broken."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without the traceback below it."""
        return plain_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback where there is one."""
        return plain_lines(super().format(record))
