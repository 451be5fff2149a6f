"""Exit times in milliseconds and exit codes for ranks' processes.

Torchrun ends the other ranks a tenth of a second after the first death. Only the exit order shows
the first one, and polling is too slow for it. A pidfd (pidfd_open(2)) becomes readable when its
process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import threading
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals.clock import Clock

UNKNOWN_EXIT = -1
_SIGNALLED = 128
"""Exit code base: 128 + n for signal n, as in shells."""


class ProcessExit(NamedTuple):
    """A process's exit: the monotonic time, and the exit code, -1 if unknown."""

    at_ns: int
    exit_code: int


class ProcessExits:
    """Wait in one thread for the end of every process passed to `watch`."""

    def __init__(self, clock: Clock, proc: Path = Path("/proc")) -> None:
        self._clock = clock
        self._proc = proc
        self._poll = select.epoll()
        self._ending = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll.register(self._ending, select.EPOLLIN)
        self._pids: dict[int, int] = {}
        self._watched: dict[int, int] = {}
        self._ended: dict[int, ProcessExit] = {}
        self._lock = threading.Lock()
        self.thread = SupervisedThread("process-exits", self._wait_forever, clock)

    def watch(self, ring_id: int, pid: int, start_ticks: int) -> None:
        """Watch a ring's process; the exit of one that is already gone stays unknown."""
        if ring_id in self._watched or ring_id in self._ended:
            return
        try:
            handle = os.pidfd_open(pid)
        except (OSError, OverflowError):  # gone, elsewhere, no valid pid, or before Linux 5.3
            return
        if start_ticks and _stat(self._proc, pid, _START) != start_ticks:
            os.close(handle)
            return
        with self._lock:
            self._watched[ring_id], self._pids[handle] = handle, pid
        self._poll.register(handle, select.EPOLLIN)
        if not self.thread.started:
            self.thread.start()

    def exit_of(self, ring_id: int) -> ProcessExit | None:
        """Return a ring's process exit; None while it lives or if it was never watched."""
        return self._ended.get(ring_id)

    def lives(self, ring_id: int) -> bool:
        """Return whether a ring's process is watched and alive; this reads nothing."""
        return ring_id in self._watched

    def forget(self, ring_ids: set[int]) -> None:
        """Forget all other rings."""
        with self._lock:
            for ring_id in [
                watched_id for watched_id in self._watched if watched_id not in ring_ids
            ]:
                self._release(ring_id)
            for ring_id in [ended_id for ended_id in self._ended if ended_id not in ring_ids]:
                del self._ended[ring_id]

    def close(self) -> None:
        """Release every process and end the thread; call it last."""
        if self._poll.closed:
            return
        os.eventfd_write(self._ending, 1)
        self.thread.join(None)
        self.forget(set())
        self._poll.close()
        os.close(self._ending)

    def _wait_forever(self) -> None:
        while True:
            for handle, _ in self._poll.poll():
                if handle == self._ending:
                    return
                at_ns = self._clock.monotonic_ns()
                with self._lock:
                    pid = self._pids.get(handle)
                    ring_id = next((k for k, v in self._watched.items() if v == handle), None)
                    if pid is not None and ring_id is not None:
                        self._ended[ring_id] = ProcessExit(
                            at_ns, exit_code(self._proc, pid, handle)
                        )
                        self._release(ring_id)

    def _release(self, ring_id: int) -> None:
        handle = self._watched.pop(ring_id)
        del self._pids[handle]
        with contextlib.suppress(OSError):
            self._poll.unregister(handle)
        os.close(handle)


_START, _EXIT = 19, 49
"""Fields 22 and 52 in proc(5)'s stat, counted after the command name."""


def _stat(proc: Path, pid: int, field: int) -> int | None:
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[field])
    except (OSError, ValueError, IndexError):
        return None


def exit_code(proc: Path, pid: int, handle: int) -> int:
    """Return a dead process's exit code by pidfd: 128 + n for signal n, -1 if unknown.

    Until its parent reaps it, /proc shows it; afterwards Linux 6.15 or later does.
    """
    status = _reaped_status(handle)
    if status is None:
        status = _zombie_status(proc, pid)
    if status is None:  # reaped between the two reads
        status = _reaped_status(handle)
    if status is None:
        return UNKNOWN_EXIT
    ended_by = status & 0x7F
    return _SIGNALLED + ended_by if ended_by else status >> 8 & 0xFF


def _zombie_status(proc: Path, pid: int) -> int | None:
    """Return the wait status from /proc; unknown for another user's process, shown as 0."""
    try:
        owner = (proc / str(pid)).stat().st_uid
    except OSError:
        return None
    return _stat(proc, pid, _EXIT) if os.geteuid() in (0, owner) else None


_INFO = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` in linux/pidfd.h: mask, cgroup, eleven ids, wait status."""
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
"""`PIDFD_GET_INFO`: _IOWR(0xFF, 11, struct pidfd_info)."""
_EXIT_KNOWN = 1 << 3
"""`PIDFD_INFO_EXIT`: requested in the mask, and still set if the status is known."""


def _reaped_status(handle: int) -> int | None:
    """Return a reaped process's wait status; None before that and on older kernels."""
    answer = bytearray(_INFO.pack(_EXIT_KNOWN, *[0] * 13))
    try:
        fcntl.ioctl(handle, _GET_INFO, answer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(answer)
    return status if mask & _EXIT_KNOWN else None
