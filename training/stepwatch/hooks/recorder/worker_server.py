"""Torch's worker server on the rank's own socket: an agent queries it once a rank is suspect.

It answers from its own threads and needs no interpreter, so it answers while the GIL is held. The
socket is in the ring's directory. If a directory above it is closed to all other users, as each
user's directory is, the socket itself is open. An agent that passes directories
(CAP_DAC_READ_SEARCH) may then query it without any right to write. Otherwise its mode is 0600. The
ring holds the path from the start; the server comes later, or never if torch or its server is
missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

from stepwatch.hooks.guard import Guard, guarded
from stepwatch.signals.blackbox import RingWriter

PATH_LIMIT = 107
"""Bytes in a unix socket's path without its final zero (unix(7))."""
FLIGHT_ENTRIES = "2000"
FLIGHT_VARIABLE = "TORCH_FR_BUFFER_SIZE"
"""Sets the length of torch's flight recorder."""
_OLDER_FLIGHT_VARIABLE = "TORCH_NCCL_TRACE_BUFFER_SIZE"
"""Its name before torch 2.8; torch prints a warning if it is set, so only a user sets it."""
_ERRORS_ONLY = 2
"""Log level for torch's native code that hides warnings."""


def socket_beside(ring: Path) -> Path:
    """Return the socket path for the rank whose ring is `ring`."""
    return ring.with_name(f"{ring.name}.sock")


def enable_flight_recorder(environ: MutableMapping[str, str]) -> bool:
    """Have torch remember its newest collectives, unless the user set the number.

    Torch reads the variable when it creates the first process group: later it changes nothing, and
    this returns False. torch 2.13 remembers 2,000 by default, older releases none.
    """
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return False
    if _OLDER_FLIGHT_VARIABLE not in environ:
        environ.setdefault(FLIGHT_VARIABLE, FLIGHT_ENTRIES)
    return True


class WorkerServer:
    """Starts one rank's server as soon as torch is available."""

    def __init__(self, ring: RingWriter | None, guard: Guard) -> None:
        self.guard = guard
        self._ring = ring
        self._tried = False
        self.started: Callable[[], None] | None = None
        """Called when the server listens."""

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
        with _without_warnings():
            server = _listen(_WorkerServer, path)
        path.chmod(mode_of(path))
        # Its destructor joins a thread that a forked child does not have, and aborts there: an
        # object with a surplus reference is never destroyed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
        if self.started is not None:
            self.started()

    @guarded()
    def close(self) -> None:
        """Remove the socket; the server's thread ends with the process."""
        if self._tried and self._ring is not None:
            Path(self._ring.identity.worker_socket).unlink(missing_ok=True)


def mode_of(socket: Path) -> int:
    """Return a mode open to all only if a directory above it keeps other users out."""
    for folder in socket.parents:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):  # a link: the directories above it protect nothing
            break
        if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return 0o666
    return 0o600


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep torch's native code from printing warnings, if this torch has the switch.

    The server prints a line for every socket, as a warning.
    """
    try:
        # RTLD_NOLOAD: the library that torch has loaded, or none.
        library = Path(sys.modules["torch"].__file__ or "").parent / "lib" / "libc10.so"
        loaded = ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD)
        level = ctypes.c_int.in_dll(loaded, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield
        return
    previous = level.value
    level.value = max(previous, _ERRORS_ONLY)
    try:
        yield
    finally:
        level.value = previous


def _listen(server: Any, path: Path) -> Any:
    """Start a server on `path`, regardless of its directory name's length."""
    if len(os.fsencode(path)) <= PATH_LIMIT:
        return server(str(path))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return server(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
