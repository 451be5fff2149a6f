"""The HTTP server of an agent: few requests at once, none for long."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication

logger = logging.getLogger(__name__)

MOST_REQUESTS = 16
"""At once; a further connection is closed without an answer."""
REQUEST_SECONDS = 10.0
"""Time that a request has, from its connection to the end of its answer."""


def serve(opened: socket.socket, application: WSGIApplication) -> WSGIServer:
    """Serve in a daemon thread until `shutdown`, on a socket that listens."""
    server = _Server(opened)
    server.set_app(application)
    threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
    return server


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape is no event."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, opened: socket.socket) -> None:
        # HTTPServer would bind itself and ask the DNS for the host's name: seconds, where there is
        # no DNS.
        address = opened.getsockname()
        super().__init__(address, _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = opened
        self.server_address = address
        self.server_name, self.server_port = address[:2]
        self.setup_environ()
        self._room = threading.BoundedSemaphore(MOST_REQUESTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # `timeout` bounds one read: a client that sends a byte now and then would stay for ever.
        alarm = threading.Timer(REQUEST_SECONDS, _end, [request])
        alarm.daemon = True
        alarm.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            alarm.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of this agent."""
        logger.debug("a request ended early: %r", sys.exception())


def _end(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
