"""Names of the processes that hold leases, and whether one of this machine is gone."""

from __future__ import annotations

import os
import secrets
import socket
import zlib
from pathlib import Path


def new_holder() -> str:
    """A name that no other process has: host, process, its process space, and something random."""
    return "/".join([socket.gethostname()[:100], str(os.getpid()), _space(), secrets.token_hex(4)])


def is_gone(holder: str) -> bool:
    """Whether a holder was a process of this machine that has ended; False where nobody knows."""
    host, number, space, *_ = [*holder.split("/"), "", "", ""]
    if host != socket.gethostname()[:100] or space != _space() or not space:
        return False
    if not number.isdigit() or int(number) == os.getpid():
        return False
    return not Path(f"/proc/{number}").exists()


def _space() -> str:
    """What processes share that see each other by their numbers; empty where it is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{zlib.crc32((boot + os.readlink('/proc/self/ns/pid')).encode()):08x}"
    except OSError:
        return ""
