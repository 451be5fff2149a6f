"""Ports on loopback for the processes of `demo` and `up`."""

from __future__ import annotations

import socket

from stepwatch.signals.errors import ConfigurationError

HOST = "127.0.0.1"


def free_port(wanted: int, option: str, purpose: str) -> int:
    """Return `wanted`, or any free port if it is 0.

    Raises:
        ConfigurationError: the port is in use or invalid.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "no such port"
            raise ConfigurationError(
                f"port {wanted} for {purpose}: {reason}; pass another {option}, or 0 for any free"
            ) from error
        return int(probe.getsockname()[1])
