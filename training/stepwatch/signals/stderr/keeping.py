"""Puts a relay between this process and its stderr, without risk for the process.

    before    fd 2 ───────────────────────▶ terminal, pipe or file
    after     fd 2 ──▶ pipe ──▶ relay ────▶ the same terminal, pipe or file
                                  └───────▶ last lines, beside the rings

Everything that a library or a child writes to fd 2 passes through. If stderr is a terminal, a
pseudoterminal replaces the pipe, so that it stays one. This process holds the reading end too: no
write can fail because the relay ended. A thread that waits for the relay's end restores the old
stderr and passes the remaining bytes on.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import fcntl
import os
import select
import tty
from pathlib import Path

from stepwatch.signals import places
from stepwatch.signals.errors import RingError
from stepwatch.signals.secrets import known_secrets

from . import line_files
from .lines import last_lines
from .relay import Ends, Store, detach, follow_size, pass_on, relay

_PIPE_BYTES = 1 << 20
_STDERR = 2
_LEAVE_SECONDS = 0.2

_kept_by = 0
"""The process whose stderr was kept here: a forked child has its parent's."""


def keep_stderr() -> bool:
    """Keep the last lines that this process writes to stderr from now on; return whether it works.

    Call it before other threads are started: it forks. A second call changes nothing, nor does one
    with `STEPWATCH_STDERR` 0, with stepwatch disabled, or with stderr closed.
    """
    global _kept_by
    disabled = os.environ.get(places.ENV_DISABLE, "0") not in ("", "0")
    if disabled or os.environ.get(places.ENV_STDERR) == "0":
        return False
    if _kept_by == os.getpid():
        return True
    try:
        _keep()
    except OSError:  # no descriptor, no process: stderr stays unchanged
        return False
    _kept_by = os.getpid()
    return True


def _keep() -> None:
    with contextlib.ExitStack() as opened:

        def closed_on_error(*ends: int) -> None:
            for end in ends:
                opened.callback(os.close, end)

        original = fcntl.fcntl(_STDERR, fcntl.F_DUPFD_CLOEXEC, 10)
        closed_on_error(original)
        source, written = _channel(original)
        closed_on_error(source, written)
        watched, alive = os.pipe()
        closed_on_error(watched, alive)
        _start(Ends(source, original, alive))
        os.dup2(written, _STDERR)
        opened.pop_all()
    os.close(written)
    os.close(alive)
    if os.isatty(original):
        atexit.register(_leave, watched, original)
    _thread.start_new_thread(_take_over, (watched, source, original))


def _channel(original: int) -> tuple[int, int]:
    """Return two ends, to read from and to write to, of the same kind as `original`.

    Raises:
        OSError: no more are available.
    """
    if os.isatty(original):
        source, written = os.openpty()
        tty.setraw(written)  # every byte passes unchanged
        follow_size(original, written)
        return source, written
    source, written = os.pipe()
    with contextlib.suppress(OSError):  # the user has many pipes; the usual 64 KB suffice
        fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return source, written


def _start(ends: Ends) -> None:
    """Start the relay as a grandchild, so that a wait for children never meets it.

    Raises:
        OSError: there are too many processes.
    """
    writer = line_files.this_process()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            _serve(ends, writer)
    finally:
        os._exit(0)  # neither handlers nor buffers of the forked process


def _serve(ends: Ends, writer: line_files.Writer) -> None:
    detached = detach(ends)
    relay(detached, _store_of(writer))


def _store_of(writer: line_files.Writer) -> Store:
    secrets = known_secrets(os.environ)
    path: Path | None = None
    with contextlib.suppress(OSError, RingError):
        path = line_files.make_folder(places.ring_dir()) / writer.name

    def store(newest: bytes, cut: bool, final: bool) -> None:
        if path is not None:
            lines = tuple(last_lines(newest, cut, secrets))
            with contextlib.suppress(OSError):  # a full directory: the bytes still pass
                line_files.write(path, line_files.SavedLines(lines, final))

    store(b"", False, False)
    return store


def _leave(watched: int, original: int) -> None:
    """Write to the terminal itself again, once it shows all output: a prompt comes next."""
    with contextlib.suppress(OSError):
        os.dup2(original, _STDERR)
        select.select([watched], [], [], _LEAVE_SECONDS)


def _take_over(watched: int, source: int, original: int) -> None:
    """Wait for the relay's end, pass its remaining bytes on, and restore the old stderr.

    Output during the switch may appear before output that was written just before it.
    """
    with contextlib.suppress(OSError):  # another code closed descriptors that are not its own
        os.read(watched, 1)
        while select.select([source], [], [], 0.0)[0] and (data := os.read(source, _PIPE_BYTES)):
            pass_on(data, original)
        os.dup2(original, _STDERR)
        while data := os.read(source, _PIPE_BYTES):  # from children, which keep the pipe
            pass_on(data, original)
