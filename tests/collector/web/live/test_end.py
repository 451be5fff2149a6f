"""A collector's end with open streams whose clients do not read."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.connections import Table
from stepwatch.collector.web.live import Hub
from stepwatch.collector.web.live.log import Change, News
from stepwatch.collector.web.server import STREAM_SECONDS, _configured, _Server
from tests.waiting import until

from .reading import address

LARGE = b'"' + b"x" * (32 << 20) + b'"'
"""More than the buffers of a socket hold."""
STREAMS = 5


def test_a_client_that_does_not_read_does_not_delay_the_end(tmp_path: Path) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    service, table = Service(store), Table(100)
    hub = Hub(service)
    hub.log.add(News([Change("large", {"reason": LARGE}, b"1.0")], {}, [], frozenset()))
    server = _Server(_configured(make_api(service, hub=hub), None), table, hub)
    with socket.create_server(("127.0.0.1", 0)) as opened:
        serving = threading.Thread(target=server.run, args=([opened],))
        serving.start()
        until("the server to start", lambda: server.started)
        clients = [socket.create_connection(opened.getsockname()) for _ in range(STREAMS)]
        try:
            for client in clients:
                client.sendall(
                    f"GET {address('fleet')} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
                )
            until("the clients to be served", lambda: _paused(server) == STREAMS)
            began = time.monotonic()
            server.should_exit = True
            serving.join()
            assert time.monotonic() - began < STREAM_SECONDS + 3.0
            assert len(table) == 0
        finally:
            server.should_exit = True
            serving.join()
            for client in clients:
                client.close()
    store.close()


def _paused(server: _Server) -> int:
    """Connections whose clients have not read what was written."""
    return sum(
        protocol.flow.write_paused  # type: ignore[union-attr]
        for protocol in [*server.server_state.connections]
    )
