"""The one way to the terminal: all that a verb prints passes here, and obeys nothing in it.

Exception texts, names of devices and words of colleagues come from other machines. `guarded` puts a
stream before stdout and stderr in which only these control a terminal: newline and tab, the colour
of a word for a state between `MARKS`, and the line that `redraw` writes. Data cannot colour
anything else: the stream takes the colour from the word, and replaces marks around other words.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from stepwatch.signals.plain_text import LineFormatter, plain_line, plain_lines

MARKS = ("\ufdd0", "\ufdd1")
"""Before and after a word that is coloured; Unicode keeps these for use within a program."""
_MARKED = re.compile(f"{MARKS[0]}([A-Za-z ]{{1,20}}){MARKS[1]}")
_GREEN, _YELLOW, _RED, _MAGENTA = 32, 33, 31, 35
_COLOURS = {
    **dict.fromkeys(("running", "finished", "healthy", "recovered", "ok", "resolved"), _GREEN),
    **dict.fromkeys(("degraded", "interrupted", "burning", "ended", "stale"), _YELLOW),
    **dict.fromkeys(("stalled", "failed", "anomaly", "exhausted", "open", "quarantined"), _RED),
    **dict.fromkeys(("unknown", "too early", "frozen", "restoring"), _MAGENTA),
}
"""Colour by the word for a state; words are read without their colour, too."""
_CLEARED = "\r\x1b[K"


class Guarded:
    """A text stream before another one: it replaces what would control a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.behind = stream

    def write(self, text: str) -> int:
        """Write `text` as it may be shown; returns its length."""
        self.behind.write(_encodable(shown(text), self.behind.encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):  # a way around
            raise AttributeError(name)
        return getattr(self.behind, name)


@contextmanager
def guarded(*, for_good: bool) -> Iterator[None]:
    """Put the stream before stdout and stderr; `for_good` where the process ends afterwards, whose
    last traceback passes through it, too."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_behind_guard, before)
    try:
        yield
    finally:
        if not for_good:
            sys.stdout, sys.stderr = before


def _behind_guard(stream: TextIO | None) -> TextIO:
    return cast(TextIO, stream if stream is None or _is_guarded(stream) else Guarded(stream))


def _is_guarded(stream: object) -> bool:
    return isinstance(stream, Guarded)


def shown(text: str) -> str:
    """`text` as the stream writes it."""
    parts = _MARKED.split(text)  # every second one stood between marks
    parts[::2] = map(plain_lines, parts[::2])
    parts[1::2] = map(_coloured, parts[1::2])
    return "".join(parts)


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word.lower())
    return word if colour is None or not is_coloured() else f"\x1b[{colour}m{word}\x1b[0m"


def _encodable(text: str, encoding: str | None) -> str:
    """With `?` for what a terminal of another encoding cannot show."""
    return text.encode(encoding, "replace").decode(encoding) if encoding else text


def is_coloured() -> bool:
    """Whether words for a state are coloured: on a terminal that can, where nobody minds."""
    return not os.environ.get("NO_COLOR") and is_redrawn()


def is_redrawn() -> bool:
    """Whether stdout is a terminal on which a line can be written again."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def painted(word: str) -> str:
    """A word for a state, marked to be shown in its colour where it has one and that is wanted."""
    has_colour = word.lower() in _COLOURS and is_coloured()
    return f"{MARKS[0]}{word}{MARKS[1]}" if has_colour else word


def unmarked(text: str) -> str:
    """`text` without marks: what takes columns."""
    return text.replace(MARKS[0], "").replace(MARKS[1], "")


def redraw(line: str) -> None:
    """Write `line` in place of what was redrawn before; empty: leave nothing there."""
    stream = cast(TextIO, getattr(sys.stdout, "behind", sys.stdout))
    wide = shutil.get_terminal_size().columns - 1
    stream.write(_CLEARED + _encodable(plain_line(line)[:wide], stream.encoding))
    stream.flush()


def start_log(name: str, level: int = logging.INFO) -> None:
    """Log to stderr from `level` on, a line a message: `2026-11-26 10:00:00,000 agent INFO ...`."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(f"%(asctime)s {name} %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # It would log each request with its URL, which may hold a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
