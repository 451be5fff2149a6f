"""Storage that serves the ranks' batches from another process, and that can be slow."""

from __future__ import annotations

import contextlib
import heapq
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.verdicts.real.environ import ENV_STORAGE
from tests.verdicts.scenario.plan import Fault

_RANK = struct.Struct("<I")


class Storage:
    """Answers each request at once, or later for a fault's ranks, in its own thread."""

    def __init__(self, path: Path, step_seconds: float) -> None:
        self.environ = {ENV_STORAGE: str(path)}
        self._step_seconds = step_seconds
        self._delays: dict[int, float] = {}
        self._delayed: list[tuple[float, int, socket.socket]] = []
        self._ranks: dict[socket.socket, int] = {}
        self._requests = 0
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(os.fspath(path))
        self._listening.listen()
        self._waker, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for source in (self._listening, self._woken):
            self._selector.register(source, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Delay the batches of the fault's ranks from this moment."""
        delay = (fault.effect - 1.0) * self._step_seconds
        self._delays = dict.fromkeys(fault.ranks, delay)

    def close(self) -> None:
        """End the thread and its connections."""
        self._waker.send(b"x")
        self._thread.join()
        for channel in (*self._ranks, self._listening, self._waker, self._woken):
            channel.close()
        self._selector.close()

    def _serve(self) -> None:
        while True:
            now = time.monotonic()
            while self._delayed and self._delayed[0][0] <= now:
                _answer(heapq.heappop(self._delayed)[2])
            wait = self._delayed[0][0] - now if self._delayed else None
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._woken:
                    return
                self._take(key.fileobj)  # type: ignore[arg-type]

    def _take(self, ready: socket.socket) -> None:
        if ready is self._listening:
            connection, _ = ready.accept()
            self._ranks[connection] = _RANK.unpack(connection.recv(_RANK.size))[0]
            self._selector.register(connection, selectors.EVENT_READ)
            return
        try:
            request = ready.recv(1)
        except OSError:
            request = b""
        if not request:  # the rank has ended
            self._selector.unregister(ready)
            return
        delay = self._delays.get(self._ranks[ready], 0.0)
        if delay <= 0.0:
            _answer(ready)
            return
        self._requests += 1
        heapq.heappush(self._delayed, (time.monotonic() + delay, self._requests, ready))


def _answer(asking: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the rank was killed
        asking.send(b"b")


def connect(path: str, rank: int) -> socket.socket:
    """Return the connection of a rank."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    connection.send(_RANK.pack(rank))
    return connection


def read_batch(storage: socket.socket) -> None:
    """Request a batch and wait for it."""
    storage.send(b"b")
    storage.recv(1)
