"""A pager over real HTTP that answers as a script says: down, slow, with errors, with garbage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Step(NamedTuple):
    """How one request is answered; `raw` goes to the socket as it is, and ends the connection."""

    status: int = 202
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None
    seconds: float = 0.0


TAKEN = Step()
"""As PagerDuty answers."""


class Pager:
    """Takes requests at `url`; `taken` are the documents that it said it took, in order."""

    def __init__(self, usual: Step) -> None:
        self.usual = usual
        self.script: list[Step] = []
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.taken: list[Any] = []
        self._ending = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop listening."""
        self._ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Answer with the next step of the script, or as usual."""
                data = self.rfile.read(int(self.headers.get("content-length", 0)))
                document = json.loads(data)
                pager.seen.append((self.path, dict(self.headers), document))
                step = pager.script.pop(0) if pager.script else pager.usual
                pager._ending.wait(step.seconds)
                try:
                    self._answer(step, document)
                except OSError:
                    self.close_connection = True  # whoever asked is gone

            def _answer(self, step: Step, document: Any) -> None:
                if step.raw is not None:
                    self.wfile.write(step.raw)
                    self.close_connection = True
                    return
                if step.status == pager.usual.status:
                    pager.taken.append(document)
                self.send_response(step.status)
                for header in step.headers:
                    self.send_header(*header)
                self.send_header("content-length", str(len(step.body)))
                self.end_headers()
                self.wfile.write(step.body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing is printed."""

        return Handler


@contextmanager
def listening(usual: Step = TAKEN) -> Iterator[Pager]:
    """One on a free port, until the end."""
    pager = Pager(usual)
    try:
        yield pager
    finally:
        pager.close()
