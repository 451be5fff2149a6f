"""Connections to one server, kept between requests and used by one thread at a time."""

from __future__ import annotations

import contextlib
import select
import ssl
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection

from .address import Address
from .errors import ConnectError, HttpError
from .proxy import proxy_for

IDLE_SECONDS = 4.0
"""A connection is not used again after this time: uvicorn closes it after 5 s."""
_MOST_IDLE = 8


class Connections:
    """Opens connections to `address`, through the environment's proxy if there is one.

    `context` returns the TLS context at each new connection.

    Raises:
        ConfigurationError: the proxy cannot be used.
    """

    def __init__(self, address: Address, context: Callable[[], ssl.SSLContext]) -> None:
        self._address, self._context = address, context
        self._proxy = proxy_for(address)
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def take(self, seconds: float) -> HTTPConnection:
        """Return a connection for one request, connected within `seconds`.

        Raises:
            ConnectError: there is none.
            HttpError: this object is closed.
        """
        while True:
            with self._lock:
                if self._is_closed:
                    raise HttpError("the client is closed")
                connection, since = self._idle.pop() if self._idle else (None, 0.0)
            if connection is None:
                return self._open(seconds)
            if time.monotonic() - since < IDLE_SECONDS and not _has_ended(connection):
                connection.sock.settimeout(seconds)
                return connection
            connection.close()

    def give(self, connection: HTTPConnection) -> None:
        """Keep a connection whose answer was read to its end."""
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Close idle connections now, the others after their answers."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    @property
    def prefix(self) -> str:
        """What precedes the path in a request line: a proxy for plain HTTP needs the origin."""
        if self._proxy is None or self._address.scheme == "https":
            return ""
        return self._address.origin

    @property
    def proxy_authorization(self) -> str | None:
        """The header for a proxy that reads this client's requests."""
        return self._proxy.basic if self._proxy is not None and self.prefix else None

    def _open(self, seconds: float) -> HTTPConnection:
        connection = self._connection(seconds)
        try:
            connection.connect()
        except (OSError, HTTPException, UnicodeError) as error:
            connection.close()
            raise ConnectError(str(error) or type(error).__name__) from error
        return connection

    def _connection(self, seconds: float) -> HTTPConnection:
        address, place = self._address, self._proxy or self._address
        if address.scheme == "http":
            return HTTPConnection(place.host, place.port, timeout=seconds)
        context = self._context()
        connection = HTTPSConnection(place.host, place.port, timeout=seconds, context=context)
        if self._proxy is not None:
            basic = self._proxy.basic
            headers = {} if basic is None else {"proxy-authorization": basic}
            connection.set_tunnel(address.host, address.port, headers)
        return connection


def _has_ended(connection: HTTPConnection) -> bool:
    """Return whether an idle connection is readable: then its server has closed it."""
    poll = select.poll()
    with contextlib.suppress(OSError, ValueError):
        poll.register(connection.sock, select.POLLIN)
        return bool(poll.poll(0))
    return True
