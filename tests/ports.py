"""Ports of this machine without a listener."""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST, _USUAL_MOST = 10_000, 32_767


def free_port() -> int:
    """Return a port that is free, and that the system assigns to no client that asks for any port.

    A concurrent test that listens on "any port" or connects to a server could otherwise get it
    first.
    """
    for port in random.SystemRandom().sample(range(_LEAST, _most()), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port
    raise RuntimeError(f"no free port from {_LEAST} to {_most()}")


def _most() -> int:
    """Return the first port that the system assigns to clients that ask for any port."""
    try:
        first = int(_RANGE.read_text().split()[0])
    except OSError:
        return _USUAL_MOST
    return first if first > _LEAST + 1000 else _USUAL_MOST
