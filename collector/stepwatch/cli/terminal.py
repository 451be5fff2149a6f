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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.phrases import file_problem
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


class OutputError(StepwatchError):
    """What a verb prints cannot be written: a full disk, for example."""


class Guarded:
    """A text stream before another one: it replaces what would control a terminal.

    A stream that `must_arrive` raises where it cannot be written. The other one is lost from then
    on and ends nothing: it is for people, and a training may begin behind it.
    """

    def __init__(self, stream: TextIO, *, must_arrive: bool = True) -> None:
        self.behind = stream
        self._must_arrive = must_arrive

    def write(self, text: str) -> int:
        """Write `text` as it may be shown; returns its length.

        Raises:
            BrokenPipeError: the reader is gone.
            OutputError: it cannot be written.
        """
        self.send(shown(text))
        return len(text)

    def send(self, text: str) -> None:
        """Write `text` as it is; raises as `write` does."""
        self._try(lambda: self.behind.write(_encodable(text, self.behind.encoding)))

    def flush(self) -> None:
        """Write what is buffered; raises as `write` does."""
        self._try(self.behind.flush)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            _discard(self.behind)
            if not self._must_arrive:
                return
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"cannot write the output: {file_problem(error)}") from error

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):  # a way around
            raise AttributeError(name)
        return getattr(self.behind, name)


def _discard(stream: TextIO) -> None:
    """Send what `stream` still holds nowhere, or the interpreter fails on it at exit (code 120)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def guarded(*, for_good: bool) -> Iterator[None]:
    """Put the stream before stdout and stderr; `for_good` where the process ends afterwards, whose
    last traceback passes through it, too."""
    streams = sys.stdout, sys.stderr
    if for_good:
        _open_descriptors()
    sys.stdout = _behind_guard(streams[0], must_arrive=True)
    sys.stderr = _behind_guard(streams[1], must_arrive=False)
    try:
        yield
    finally:
        if not for_good:
            sys.stdout, sys.stderr = streams


def _open_descriptors() -> None:
    """Open /dev/null where this process was started without stdin, stdout or stderr: a store or a
    socket would get that number, and a child would write into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free


def _behind_guard(stream: TextIO | None, *, must_arrive: bool) -> TextIO:
    """`stream` guarded; Python has None for one that the process was started without."""
    if isinstance(stream, Guarded):
        return cast(TextIO, stream)
    target = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    return cast(TextIO, Guarded(target, must_arrive=must_arrive))


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
    wide = shutil.get_terminal_size().columns - 1
    stream = Guarded(cast(TextIO, getattr(sys.stdout, "behind", sys.stdout)))
    stream.send(_CLEARED + plain_line(line)[:wide])
    stream.flush()


def start_log(name: str, level: int = logging.INFO) -> None:
    """Log to stderr from `level` on, a line a message: `2026-11-26 10:00:00,000 agent INFO ...`."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(f"%(asctime)s {name} %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # It would log each request with its URL, which may hold a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
