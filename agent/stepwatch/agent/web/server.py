"""The agent's HTTP server: few parallel requests, none for long.

It uses the standard library: uvicorn takes 2.3 MiB resident memory, and the agent may have 35 MiB.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import sys
import threading
import time
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication

logger = logging.getLogger(__name__)

MOST_REQUESTS = 16
"""Maximum parallel requests, each in a thread; a further one closes the oldest connection without a
request.
"""
REQUEST_SECONDS = 10.0
"""Seconds for a request, from its connection to the answer's end."""
_LEAVE_SECONDS = 1.0
"""Seconds for a closed connection's thread to end."""
_LATE_SECONDS = 0.5
"""Seconds between searches for overdue connections."""
_RETRY_SECONDS = 0.2
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def serve(opened: socket.socket, application: WSGIApplication) -> WSGIServer:
    """Serve on a listening socket in a daemon thread until `shutdown`."""
    server = _Server(opened)
    server.set_app(application)
    threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
    return server


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS
    server: _Server

    def parse_request(self) -> bool:
        """Read a request's head."""
        complete = super().parse_request()
        if complete:
            self.server.connections.begin_answer(self.connection)
        return complete

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape is not an event."""


class _Connections:
    """Open connections, oldest first."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._opened: dict[socket.socket, float] = {}
        self._answered: set[socket.socket] = set()
        """Connections whose request has arrived."""

    def __len__(self) -> int:
        return len(self._opened)

    def add(self, connection: socket.socket) -> None:
        with self._changing:
            self._opened[connection] = time.monotonic()

    def begin_answer(self, connection: socket.socket) -> None:
        with self._changing:
            self._answered.add(connection)

    def remove(self, connection: socket.socket) -> None:
        with self._changing:
            self._opened.pop(connection, None)
            self._answered.discard(connection)

    def end_one(self) -> None:
        """Close the oldest connection without a request, else the oldest."""
        with self._changing:
            waiting = (
                connection for connection in self._opened if connection not in self._answered
            )
            oldest = next(waiting, None) or next(iter(self._opened), None)
            if oldest is not None:
                _end(oldest)

    def end_late(self) -> None:
        """Close overdue connections: a handler's `timeout` limits only one read."""
        latest = time.monotonic() - REQUEST_SECONDS
        with self._changing:
            for connection, opened in self._opened.items():
                if opened <= latest:
                    _end(connection)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, opened: socket.socket) -> None:
        # HTTPServer would bind itself and look up the host name: without DNS that takes seconds.
        address = opened.getsockname()
        super().__init__(address, _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = opened
        self.server_address = address
        self.server_name, self.server_port = address[:2]
        self.setup_environ()
        self.connections = _Connections()
        self._ending, self._ended = os.eventfd(0, os.EFD_CLOEXEC), threading.Event()
        self._room = threading.BoundedSemaphore(MOST_REQUESTS)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; without free descriptors the loop would retry at once, forever."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                self.connections.end_one()
                time.sleep(_RETRY_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.connections.end_one()
            if not self._room.acquire(timeout=_LEAVE_SECONDS):
                self.shutdown_request(request)
                return
        self.connections.add(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def serve_forever(self, poll_interval: float = _LATE_SECONDS) -> None:
        """Serve until `shutdown`; without a connection the thread sleeps until there is one."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.register(self._ending, select.POLLIN)
        while True:
            ready = poll.poll(1000 * poll_interval if self.connections else None)
            if any(handle == self._ending for handle, _ in ready):
                break
            if ready:
                self.handle_request()
            self.connections.end_late()
        self._ended.set()

    def shutdown(self) -> None:
        """End `serve_forever`."""
        os.eventfd_write(self._ending, 1)
        self._ended.wait()

    def server_close(self) -> None:
        """Close the listening socket."""
        super().server_close()
        os.close(self._ending)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that went away; it is not an error."""
        logger.debug("a request ended early: %r", sys.exception())

    def _leave(self, request: Any) -> None:
        self.connections.remove(request)
        self._room.release()


def _end(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
