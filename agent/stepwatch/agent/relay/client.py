"""Connections to a collector, for agents and CLI commands."""

from __future__ import annotations

from stepwatch.signals.access import Access
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.http import Client


def connect(collector: str, access: Access, seconds: float = 10.0) -> Client:
    """Return a client for a collector's base URL, with a deadline per connect, read and write.

    Raises:
        ConfigurationError: the address is not a URL, or the environment's proxy cannot be used.
    """
    try:
        return Client(
            collector,
            seconds=seconds,
            authorization=access.authorization,
            context=access.context,
        )
    except ValueError as error:
        raise ConfigurationError(
            f"{collector[:200]!r} is not a URL ({error}); pass --collector http://HOST:PORT"
        ) from error
