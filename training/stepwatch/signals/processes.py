"""What tells one process from another that has, or had, its number."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

FRESH_HEARTBEAT_SECONDS = 3.0
"""The hooks' heart beats twice a second: one this young is of a process that lives."""
_STATE, _START = 0, 19
"""Fields 3 and 22 of proc(5)'s stat, counted after the command's name."""


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int:
    """Start of a process in clock ticks since boot; 0 if unknown, also for one that has ended."""
    fields = _stat(pid, proc)
    return int(fields[_START]) if len(fields) > _START and fields[_STATE] not in "ZX" else 0


def has_ended(pid: int, start: int, proc: Path = Path("/proc")) -> bool:
    """Whether the process `pid` that began at `start` ticks has certainly ended.

    A process that cannot be looked at now, for want of a descriptor or of the right to, may live. A
    zombie has ended.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or no number of a process
        pass
    fields = _stat(pid, proc)
    return len(fields) > _START and (fields[_STATE] in "ZX" or int(fields[_START]) != start)


def started_s(pid: int, proc: Path = Path("/proc")) -> float | None:
    """When a process started, Unix seconds; None if unknown."""
    ticks = start_ticks(pid, proc)
    if not ticks:
        return None
    ago_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - ago_s


def pid_namespace() -> int:
    """Number of the namespace in which this process has its pid; 0 if unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


@cache
def boot_number() -> int:
    """A number of this run of the kernel, the same in all its containers; 0 if unknown."""
    try:
        words = Path("/proc/sys/kernel/random/boot_id").read_text()
        return int(words.strip().replace("-", "")[:16], 16) >> 1
    except (OSError, ValueError):
        return 0


def environment_at_start(proc: Path = Path("/proc")) -> dict[str, str]:
    """Variables with which this program began, whatever it set since; empty if unknown."""
    try:
        words = os.fsdecode((proc / "self/environ").read_bytes()).split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def _stat(pid: int, proc: Path) -> list[str]:
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
