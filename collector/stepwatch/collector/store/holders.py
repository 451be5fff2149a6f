"""Names for lease holders, and detection of local holders that have exited."""

from __future__ import annotations

import os
import secrets
import socket
import zlib
from pathlib import Path


def new_holder() -> str:
    """Return a unique name: host, process id, PID namespace, and a random suffix."""
    return "/".join([socket.gethostname()[:100], str(os.getpid()), _space(), secrets.token_hex(4)])


def is_gone(holder: str) -> bool:
    """Return whether a holder was a local process that has exited; False if that is unknown."""
    host, number, space, *_ = [*holder.split("/"), "", "", ""]
    if host != socket.gethostname()[:100] or space != _space() or not space:
        return False
    if not number.isdigit() or int(number) == os.getpid():
        return False
    return not Path(f"/proc/{number}").exists()


def _space() -> str:
    """Return an id for the boot and PID namespace, empty if unknown.

    Processes with the same id see each other by process id.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{zlib.crc32((boot + os.readlink('/proc/self/ns/pid')).encode()):08x}"
    except OSError:
        return ""
