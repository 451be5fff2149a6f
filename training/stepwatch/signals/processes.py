"""Distinguishes a process from others that have, or had, its number."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

FRESH_HEARTBEAT_SECONDS = 3.0
"""The hooks' heart beats twice a second: a heartbeat this young belongs to a living process."""
_STATE, _START = 0, 19
"""Fields 3 and 22 in proc(5)'s stat, counted after the command's name."""


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int:
    """Return a process's start in clock ticks since boot; 0 if unknown, also after its end."""
    fields = _stat(pid, proc)
    return int(fields[_START]) if len(fields) > _START and fields[_STATE] not in "ZX" else 0


def has_ended(pid: int, start: int, proc: Path = Path("/proc")) -> bool:
    """Return whether the process `pid` that began at `start` ticks has certainly ended.

    A process that cannot be inspected now, for want of a descriptor or permission, may live. A
    zombie has ended.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or no process number
        pass
    fields = _stat(pid, proc)
    return len(fields) > _START and (fields[_STATE] in "ZX" or int(fields[_START]) != start)


def started_s(pid: int, proc: Path = Path("/proc")) -> float | None:
    """Return when a process started, Unix seconds; None if unknown."""
    ticks = start_ticks(pid, proc)
    if not ticks:
        return None
    ago_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - ago_s


def pid_namespace() -> int:
    """Return the number of this process's pid namespace; 0 if unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


@cache
def boot_number() -> int:
    """Return a number for this kernel run, the same in all its containers; 0 if unknown."""
    try:
        words = Path("/proc/sys/kernel/random/boot_id").read_text()
        return int(words.strip().replace("-", "")[:16], 16) >> 1
    except (OSError, ValueError):
        return 0


def environment_at_start(proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the variables with which this program began, before any change; empty if unknown."""
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
