"""When each rank's process ended, to the millisecond, and how.

Torchrun ends the other ranks a tenth of a second after the first has died: only the order of their
exits shows which one that was, and polling is too slow to see it. A pidfd (pidfd_open(2)) becomes
readable when its process ends.
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
"""A process ended by signal n has exit code 128 + n, as shells do."""


class ProcessExit(NamedTuple):
    """The monotonic moment at which a process was seen to end, and its exit code, -1 if unknown."""

    at_ns: int
    exit_code: int


class ProcessExits:
    """Waits in a thread of its own for the end of every process that `watch` names."""

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
        """Watch the process behind a ring; one that is gone already has no known end."""
        if ring_id in self._watched or ring_id in self._ended:
            return
        try:
            handle = os.pidfd_open(pid)
        except (OSError, OverflowError):  # gone, elsewhere, no pid at all, or before Linux 5.3
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
        """How the process behind a ring ended; None while it lives or if it was never watched."""
        return self._ended.get(ring_id)

    def lives(self, ring_id: int) -> bool:
        """Whether the process behind a ring is watched, and has not ended; nothing is read."""
        return ring_id in self._watched

    def forget(self, ring_ids: set[int]) -> None:
        """Keep only these rings."""
        with self._lock:
            for ring_id in [
                watched_id for watched_id in self._watched if watched_id not in ring_ids
            ]:
                self._release(ring_id)
            for ring_id in [ended_id for ended_id in self._ended if ended_id not in ring_ids]:
                del self._ended[ring_id]

    def close(self) -> None:
        """Release every process and end the thread; to be called last."""
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
"""Fields 22 and 52 of proc(5)'s stat, counted after the command's name."""


def _stat(proc: Path, pid: int, field: int) -> int | None:
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[field])
    except (OSError, ValueError, IndexError):
        return None


def exit_code(proc: Path, pid: int, handle: int) -> int:
    """Exit code of the dead process behind a pidfd: 128 + n for signal n, -1 if unknown.

    Until its parent reaps it, /proc shows it; afterwards Linux 6.15 or later does.
    """
    status = _reaped_status(handle)
    if status is None:
        status = _zombie_status(proc, pid)
    if status is None:  # reaped between the two
        status = _reaped_status(handle)
    if status is None:
        return UNKNOWN_EXIT
    ended_by = status & 0x7F
    return _SIGNALLED + ended_by if ended_by else status >> 8 & 0xFF


def _zombie_status(proc: Path, pid: int) -> int | None:
    """Wait status as /proc shows it; the kernel shows another user's as 0, so that is unknown."""
    try:
        owner = (proc / str(pid)).stat().st_uid
    except OSError:
        return None
    return _stat(proc, pid, _EXIT) if os.geteuid() in (0, owner) else None


_INFO = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` of linux/pidfd.h: mask, cgroup, eleven ids, wait status."""
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
"""`PIDFD_GET_INFO`: _IOWR(0xFF, 11, struct pidfd_info)."""
_EXIT_KNOWN = 1 << 3
"""`PIDFD_INFO_EXIT`: asked for in the mask, and left there if the status is known."""


def _reaped_status(handle: int) -> int | None:
    """Wait status of a process that was reaped; None before that and on older kernels."""
    answer = bytearray(_INFO.pack(_EXIT_KNOWN, *[0] * 13))
    try:
        fcntl.ioctl(handle, _GET_INFO, answer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(answer)
    return status if mask & _EXIT_KNOWN else None
