"""Ports on loopback for what `demo` and `up` start."""

from __future__ import annotations

import socket

from stepwatch.signals.errors import ConfigurationError

HOST = "127.0.0.1"


def free_port(wanted: int, option: str, purpose: str) -> int:
    """`wanted`, or any free one where that is 0.

    Raises:
        ConfigurationError: it is in use, or no port.
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
