"""Queries a rank's worker server without trusting the answer's size, form or pace."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import stat
import struct
import threading
from pathlib import Path

from stepwatch.signals.access.bounded import TooLongError, read_within

MAX_BYTES = 8 << 20
"""Maximum answer size: 2,000 flight recorder entries take 1 MB."""
SECONDS = 2.0
"""Seconds for one answer, including the connection."""
_PIECE = 1 << 16
_CREDENTIALS = struct.Struct("=3i")
"""`struct ucred` in unix(7): process, user, group."""


def ask(
    path: Path,
    handler: str,
    owner: int | None = None,
    *,
    seconds: float = SECONDS,
    most: int = MAX_BYTES,
) -> bytes:
    """Return the answer's body for `handler`, which may include a query.

    With `owner`, a user id, only that user's process is asked.

    Raises:
        OSError: nothing listens, the answer is late or too long, or the socket is another user's.
        UnknownHandlerError: this torch has no such handler.
        ValueError: the answer is not HTTP, or its status is not 200.
    """
    connection = _UnixConnection(path, seconds, owner)
    # A socket's timeout restarts with every byte: only this timer ends a trickling answer.
    alarm = threading.Timer(seconds, connection.abandon)
    alarm.start()
    try:
        connection.request("POST", f"/handler/{handler}")
        response = connection.getresponse()
        if response.status == http.client.NOT_FOUND:
            raise UnknownHandlerError(f"status {response.status}")
        if response.status != http.client.OK:
            raise ValueError(f"status {response.status}")
        body = read_within(iter(lambda: response.read1(_PIECE), b""), most)
        if connection.abandoned:
            raise TimeoutError(f"it took longer than {seconds:.0f} s")
        return body
    except TooLongError as error:
        raise OSError(f"its answer is longer than {most} bytes") from error
    except http.client.RemoteDisconnected as error:
        raise ValueError("it closed the connection") from error
    except http.client.HTTPException as error:
        raise ValueError("its answer is not HTTP") from error
    finally:
        alarm.cancel()
        connection.close()


class UnknownHandlerError(ValueError):
    """The server does not know the handler."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, seconds: float, owner: int | None) -> None:
        super().__init__("rank", timeout=seconds)
        self._path = path
        self._owner = owner
        self._seconds = seconds
        self.abandoned = False
        # http.client hands its socket over to an answer that ends with the connection.
        self._opened: socket.socket | None = None

    def abandon(self) -> None:
        """End every wait on this connection; safe from another thread."""
        self.abandoned = True
        with contextlib.suppress(OSError):
            if self._opened is not None:
                self._opened.shutdown(socket.SHUT_RDWR)

    def _refuse_others(self, connected: socket.socket) -> None:
        # A user owns the folder and may put a link to another user's socket there.
        peer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(peer)
        if self._owner is not None and user != self._owner:
            raise PermissionError(f"{self._path.name} is a socket of user {user}")

    def connect(self) -> None:
        """Connect to the socket itself, not through a link, with any path length."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.stat(self._path.name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISSOCK(status.st_mode):
                raise OSError(f"{self._path.name} is not a socket")
            self.sock = self._opened = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self._seconds)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
            self._refuse_others(self.sock)
        finally:
            os.close(folder)
