"""A server that sends scripted bytes, one script for each request."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

Script = Callable[[bytes], Iterable[bytes]]
"""Yields the bytes of an answer to a request; an empty piece ends the connection."""


class RawServer:
    """What it received: whole requests, and how many connections."""

    def __init__(self, listening: socket.socket) -> None:
        self.place = f"127.0.0.1:{listening.getsockname()[1]}"
        self.url = f"http://{self.place}"
        self.requests: list[bytes] = []
        self.connections = 0
        self.is_ending = False

    @property
    def heads(self) -> list[list[str]]:
        """The lines of each request's head."""
        return [
            request.partition(b"\r\n\r\n")[0].decode().split("\r\n") for request in self.requests
        ]


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    """An answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def trickled(data: bytes, seconds: float = 0.02) -> Iterator[bytes]:
    """Yield single bytes with pauses between."""
    for position in range(len(data)):
        yield data[position : position + 1]
        time.sleep(seconds)


@contextmanager
def raw_server(script: Script, reads_body: bool = True) -> Iterator[RawServer]:
    """Serve on a loopback port until the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = RawServer(listening)
        listening.settimeout(0.05)

        def accept() -> None:
            while not server.is_ending:
                with contextlib.suppress(TimeoutError):
                    connected, _ = listening.accept()
                    server.connections += 1
                    threading.Thread(target=serve, args=(connected,), daemon=True).start()

        def serve(connected: socket.socket) -> None:
            with contextlib.suppress(OSError), connected:
                while request := _request(connected, reads_body):
                    server.requests.append(request)
                    for piece in script(request):
                        if not piece or server.is_ending:
                            return
                        connected.sendall(piece)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server
        finally:
            server.is_ending = True
            thread.join(10)


def _request(connected: socket.socket, reads_body: bool) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        received = connected.recv(1024)
        if not received:
            return b""
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0].split(b":")[1]) - len(body) if lengths and reads_body else 0
    while missing > 0 and (received := connected.recv(missing)):
        data, missing = data + received, missing - len(received)
    return data
