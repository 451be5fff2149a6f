"""The only path to the terminal: all output of a verb passes here, and data controls nothing.

Exception texts, device names and users' words come from other machines. `guarded` wraps stdout and
stderr in a stream in which only these control a terminal: newline and tab, the colour of a state
word between `MARKS`, and the line that `redraw` writes. Data cannot colour anything else: the
stream derives the colour from the word, and replaces marks around other words.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from stepwatch.signals import places
from stepwatch.signals.errors import StepwatchError, UsageError
from stepwatch.signals.log_lines import JsonLines
from stepwatch.signals.phrases import file_problem
from stepwatch.signals.plain_text import LineFormatter, plain_line, plain_lines

MARKS = ("\ufdd0", "\ufdd1")
"""Enclose a coloured word; Unicode reserves these code points for internal use."""
_MARKED = re.compile(f"{MARKS[0]}([A-Za-z ]{{1,20}}){MARKS[1]}")
_GREEN, _YELLOW, _RED, _MAGENTA = 32, 33, 31, 35
_COLOURS = {
    **dict.fromkeys(
        ("running", "finished", "healthy", "recovered", "ok", "resolved", "verified"), _GREEN
    ),
    **dict.fromkeys(("degraded", "interrupted", "burning", "ended", "stale"), _YELLOW),
    **dict.fromkeys(
        ("stalled", "failed", "anomaly", "exhausted", "open", "quarantined", "damaged"), _RED
    ),
    **dict.fromkeys(("unknown", "too early", "frozen", "restoring"), _MAGENTA),
}
"""Colour by state word; the words are meaningful without colour, too."""
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
_CLEARED = "\r\x1b[K"


class OutputError(StepwatchError):
    """A verb's output cannot be written: a full disk, for example."""


class Guarded:
    """A text stream that wraps another one and replaces terminal control codes.

    A stream with `must_arrive` raises if it cannot be written. Without it, failed output is dropped
    and the process continues: the output is informational, and a training may start after it.
    """

    def __init__(self, stream: TextIO, *, must_arrive: bool = True) -> None:
        self.behind = stream
        self._must_arrive = must_arrive

    def write(self, text: str) -> int:
        """Write `text` in its safe form; return its length.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
            OutputError: the stream cannot be written.
        """
        self.send(shown(text))
        return len(text)

    def send(self, text: str) -> None:
        """Write `text` unchanged; raises as `write` does."""
        self._try(lambda: self.behind.write(_encodable(text, self.behind.encoding)))

    def flush(self) -> None:
        """Flush the buffer; raises as `write` does."""
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
        """Write all `lines`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):  # they would bypass the guard
            raise AttributeError(name)
        return getattr(self.behind, name)


def _discard(stream: TextIO) -> None:
    """Redirect the buffer of `stream` to /dev/null; else the interpreter exits with code 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def guarded(*, for_good: bool) -> Iterator[None]:
    """Wrap stdout and stderr within the context.

    With `for_good` the wrappers remain until the process exits, so that its last traceback passes
    through them, too.
    """
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
    """Open /dev/null for stdin, stdout and stderr if the process was started without them.

    Otherwise a store or a socket would get that number, and a child would write into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number


def _behind_guard(stream: TextIO | None, *, must_arrive: bool) -> TextIO:
    """Return `stream` guarded; Python has None for a stream that was closed at process start."""
    if isinstance(stream, Guarded):
        return cast(TextIO, stream)
    target = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    return cast(TextIO, Guarded(target, must_arrive=must_arrive))


def shown(text: str) -> str:
    """Return `text` as the stream writes it."""
    parts = _MARKED.split(text)  # odd parts were between marks
    parts[::2] = map(plain_lines, parts[::2])
    parts[1::2] = map(_coloured, parts[1::2])
    return "".join(parts)


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word.lower())
    return word if colour is None or not is_coloured() else f"\x1b[{colour}m{word}\x1b[0m"


def _encodable(text: str, encoding: str | None) -> str:
    """Return `text` with `?` for characters that the terminal's encoding lacks."""
    return text.encode(encoding, "replace").decode(encoding) if encoding else text


def is_coloured() -> bool:
    """Return whether state words are coloured: on a capable terminal, unless NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and is_redrawn()


def is_redrawn() -> bool:
    """Return whether stdout is a terminal on which a line can be rewritten."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def painted(word: str) -> str:
    """Return a state word, marked for its colour if it has one and colours are on."""
    has_colour = word.lower() in _COLOURS and is_coloured()
    return f"{MARKS[0]}{word}{MARKS[1]}" if has_colour else word


def unmarked(text: str) -> str:
    """Return `text` without marks, which occupy no columns."""
    return text.replace(MARKS[0], "").replace(MARKS[1], "")


def redraw(line: str) -> None:
    """Replace the line that was drawn last with `line`; an empty line clears it."""
    wide = shutil.get_terminal_size().columns - 1
    stream = Guarded(cast(TextIO, getattr(sys.stdout, "behind", sys.stdout)))
    stream.send(_CLEARED + plain_line(line)[:wide])
    stream.flush()


def add_log_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--log-format`."""
    parser.add_argument(
        "--log-format",
        default=os.environ.get(places.ENV_LOG_FORMAT) or TEXT,
        metavar="FORMAT",
        help=f"text, or json: one object a line [{places.ENV_LOG_FORMAT}, or text]",
    )


def start_log(name: str, level: int = logging.INFO, form: str = TEXT) -> None:
    """Log to stderr from `level` up, a line a message: `2026-11-26 10:00:00,000 agent INFO ...`.

    In the `form` json each line is an object; a thread's last traceback and warnings are, too.

    Raises:
        UsageError: there is no such format.
    """
    if form not in FORMATS:
        raise UsageError(f"--log-format {form!r} must be {' or '.join(FORMATS)}")
    handler = logging.StreamHandler()
    if form == JSON:
        handler.setFormatter(JsonLines(service=f"stepwatch-{name}"))
        threading.excepthook = _log_thread
        logging.captureWarnings(True)
    else:
        handler.setFormatter(LineFormatter(f"%(asctime)s {name} %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    # httpx would log each request with its URL, which may contain a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    """Log the exception that ended a thread."""
    if ended.exc_value is None or isinstance(ended.exc_value, SystemExit):
        return
    name = "a thread" if ended.thread is None else f"the thread {ended.thread.name}"
    error = ended.exc_value
    logging.critical("%s ended: %r", name, error, exc_info=error)
