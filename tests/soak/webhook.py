"""A receiver of notifications: counts them by key, and refuses some at the first try."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY_HEADER = "Idempotency-Key"
_REFUSE_EVERY = 5
"""Every fifth key is answered with 503 at first."""


class Receiver:
    """Listens on a free port of loopback until it is closed; `deliveries` counts 200s by key."""

    def __init__(self) -> None:
        self.deliveries: Counter[str] = Counter()
        self.bodies: dict[str, set[bytes]] = {}
        self.refusals: set[str] = set()
        self.without_key = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the receiver."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/notify"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, key: str | None, body: bytes) -> int:
        """Return the status for a POST."""
        with self._lock:
            if not key:
                self.without_key += 1
                return 400
            bodies = self.bodies.setdefault(key, set())
            bodies.add(body)
            if key not in self.refusals and len(self.bodies) % _REFUSE_EVERY == 1:
                self.refusals.add(key)
                return 503
            self.deliveries[key] += 1
            return 200

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """One notification."""
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(receiver.take(self.headers.get(KEY_HEADER), body))
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing is printed."""

        return Handler
