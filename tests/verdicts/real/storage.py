"""Storage that ranks read their batches from, served by another process, which can be slow."""

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
    """Answers each request at once, or later to the ranks of a fault. A thread does it."""

    def __init__(self, path: Path, step_seconds: float) -> None:
        self.environ = {ENV_STORAGE: str(path)}
        self._step_seconds = step_seconds
        self._delays: dict[int, float] = {}
        self._late: list[tuple[float, int, socket.socket]] = []
        self._ranks: dict[socket.socket, int] = {}
        self._requests = 0
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(os.fspath(path))
        self._listening.listen()
        self._waker, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._listening, self._woken):
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """From now on the ranks of the fault wait for their batches."""
        delay = (fault.effect - 1.0) * self._step_seconds
        self._delays = dict.fromkeys(fault.ranks, delay)

    def close(self) -> None:
        """End the thread, and the connections with it."""
        self._waker.send(b"x")
        self._thread.join()
        for each in (*self._ranks, self._listening, self._waker, self._woken):
            each.close()
        self._selector.close()

    def _serve(self) -> None:
        while True:
            now = time.monotonic()
            while self._late and self._late[0][0] <= now:
                _answer(heapq.heappop(self._late)[2])
            wait = self._late[0][0] - now if self._late else None
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._woken:
                    return
                self._take(key.fileobj)  # type: ignore[arg-type]

    def _take(self, ready: socket.socket) -> None:
        if ready is self._listening:
            made, _ = ready.accept()
            self._ranks[made] = _RANK.unpack(made.recv(_RANK.size))[0]
            self._selector.register(made, selectors.EVENT_READ)
            return
        try:
            asked = ready.recv(1)
        except OSError:
            asked = b""
        if not asked:  # the rank has ended
            self._selector.unregister(ready)
            return
        delay = self._delays.get(self._ranks[ready], 0.0)
        if delay <= 0.0:
            _answer(ready)
            return
        self._requests += 1
        heapq.heappush(self._late, (time.monotonic() + delay, self._requests, ready))


def _answer(asking: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was killed meanwhile
        asking.send(b"b")


def connect(path: str, rank: int) -> socket.socket:
    """The connection of a rank."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.connect(path)
    made.send(_RANK.pack(rank))
    return made


def read_batch(storage: socket.socket) -> None:
    """Ask for a batch and wait for it."""
    storage.send(b"b")
    storage.recv(1)
