"""Torch's worker server on a socket of the rank's own: an agent asks it once a rank is suspect.

It answers from threads of its own and needs no interpreter, so it answers while the GIL is held.
The socket lies beside the ring, in its private directory, with mode 0600. The path stands in the
ring from the start; the server comes later, or never where torch or its server is missing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from stepwatch.hooks.guard import Guard, guarded
from stepwatch.signals.blackbox import RingWriter

PATH_LIMIT = 107
"""Bytes of a unix socket's path without its final zero (unix(7))."""
FLIGHT_ENTRIES = "2000"
FLIGHT_VARIABLES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""What sets the length of torch's flight recorder; the second is the older name."""


def socket_beside(ring: Path) -> Path:
    """Where the rank whose ring is `ring` listens."""
    return ring.with_name(f"{ring.name}.sock")


def enable_flight_recorder(environ: MutableMapping[str, str]) -> bool:
    """Have torch remember its newest collectives, unless the user set how many.

    Torch reads the variable when the first process group is made: later it changes nothing, and
    what is returned is False. torch 2.13 remembers 2,000 by default, older releases none.
    """
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return False
    if not any(name in environ for name in FLIGHT_VARIABLES):
        for name in FLIGHT_VARIABLES:
            environ[name] = FLIGHT_ENTRIES
    return True


class WorkerServer:
    """Starts the server of one rank at the first moment at which torch is there."""

    def __init__(self, ring: RingWriter | None, guard: Guard) -> None:
        self.guard = guard
        self._ring = ring
        self._tried = False

    @guarded()
    def start(self) -> None:
        """Start unless it was tried before or the trainer has not imported torch yet."""
        if self._tried or self._ring is None or not self._ring.identity.worker_socket:
            return
        if not hasattr(sys.modules.get("torch"), "distributed"):
            return
        self._tried = True
        try:
            from torch._C._distributed_c10d import _WorkerServer
        except ImportError:  # a torch without distributed, or one without the server
            return
        path = Path(self._ring.identity.worker_socket)
        path.unlink(missing_ok=True)
        server = _listen(_WorkerServer, path)
        path.chmod(0o600)
        # Its destructor joins a thread that a forked child does not have, and aborts there: an
        # object with one reference too many is never destroyed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))

    @guarded()
    def close(self) -> None:
        """Remove the socket; the server's thread ends with the process."""
        if self._tried and self._ring is not None:
            Path(self._ring.identity.worker_socket).unlink(missing_ok=True)


def _listen(server: Any, path: Path) -> Any:
    """A server on `path`, however long its directory's name is."""
    if len(os.fsencode(path)) <= PATH_LIMIT:
        return server(str(path))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return server(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
