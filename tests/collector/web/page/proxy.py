"""A proxy as companies have them: it passes an answer on only when it is whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_PASSED = ("content-type", "etag", "content-security-policy", "cache-control")
_MOST_SECONDS = 60.0


@contextmanager
def holding_back(collector_url: str) -> Iterator[str]:
    """Yield the address of a proxy before a collector; an answer that does not end never comes."""
    finished = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Passes one request on."""

        def do_GET(self) -> None:
            if self.path.startswith("/v1/events"):
                finished.wait(_MOST_SECONDS)
                return
            answer = httpx.get(f"{collector_url}{self.path}", timeout=_MOST_SECONDS)
            self.send_response(answer.status_code)
            for name in _PASSED:
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            finished.set()
            server.shutdown()
            thread.join()
