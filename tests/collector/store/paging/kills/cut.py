"""A way to PostgreSQL that can be cut after a commit was done, before its answer arrives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

_AT_ONCE = 1 << 16


class CutAfterCommit:
    """Hands connections to a port on; `arm` cuts the one whose transaction wrote `marker`.

    Once its commit was answered, `then` is called and nobody is given the answer.
    """

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._armed: tuple[bytes, Callable[[], None]] | None = None
        self.was_cut = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, marker: bytes, then: Callable[[], None]) -> None:
        """Cut the next commit of a transaction in which `marker` was sent, once."""
        self.was_cut.clear()
        self._armed = marker, then

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        cutting = threading.Event()
        back = threading.Thread(target=self._back, args=(server, client, cutting), daemon=True)
        back.start()
        marked = False
        try:
            while data := client.recv(_AT_ONCE):
                armed = self._armed
                marked = marked or (armed is not None and armed[0] in data)
                if marked and armed is not None and b"COMMIT" in data:
                    cutting.set()
                    self._armed = None
                    self._then = armed[1]
                server.sendall(data)
        except OSError:
            pass
        finally:
            _end(server)

    def _back(self, server: socket.socket, client: socket.socket, cutting: threading.Event) -> None:
        try:
            while data := server.recv(_AT_ONCE):
                if cutting.is_set():
                    self._then()
                    self.was_cut.set()
                    return
                client.sendall(data)
        except OSError:
            pass
        finally:
            _end(client)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
