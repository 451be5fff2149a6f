"""Each stage of a request has a time limit, over TLS, too; on a real server in this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from stepwatch.collector.web.access.certificate import Certificate
from stepwatch.collector.web.connections import Connection, Listener, Table, TimedProtocol
from stepwatch.collector.web.connections import listener as listening
from stepwatch.collector.web.connections import protocol as stages
from stepwatch.collector.web.connections.table import Stage
from tests.access.certificates import Authority

Act = Callable[[int, Table], Awaitable[None]]
LARGE = b"x" * (64 << 20)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """`/large` is more than the buffers of a socket hold; no body is read.

    `/endless` is a stream of events with as much, a part at a time.
    """
    if scope["path"] == "/endless":
        scope["state"]["is_endless"] = True
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for first in range(0, len(LARGE), len(LARGE) // 64):
            part = LARGE[first : first + len(LARGE) // 64]
            await send({"type": "http.response.body", "body": part, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": LARGE if scope["path"] == "/large" else b""})


def serving(act: Act, most: int = 100, context: ssl.SSLContext | None = None) -> None:
    """Run `act` with the port and the table of a server."""

    async def run() -> None:
        config = uvicorn.Config(answer, http="h11", ws="none", lifespan="off", log_level="error")
        config.load()
        state, table = uvicorn.server.ServerState(), Table(most)

        def make(connection: Connection) -> TimedProtocol:
            return TimedProtocol(config, state, table, connection)

        with socket.create_server(("127.0.0.1", 0)) as opened:
            server = Listener(opened, table, make, context)
            try:
                await asyncio.wait_for(act(opened.getsockname()[1], table), 120.0)
            finally:
                server.close()
                for open_connection in list(state.connections):
                    open_connection.transport.abort()
                await asyncio.sleep(0)
                await server.wait_closed()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test waits for."""
    monkeypatch.setattr(listening, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(listening, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(stages, "READ_SECONDS", 0.3)
    limits = {Stage.HEAD: 0.3, Stage.DISCARD: 0.3}
    monkeypatch.setattr(stages, "_SECONDS", limits)


async def is_ended(port: int, first: bytes, more: bytes) -> bytes:
    """What a client reads that sends `first`, then `more` again and again, until it is ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    answered: list[bytes] = []

    async def read() -> None:
        while part := await reader.read(1000):
            answered.append(part)

    reading = asyncio.create_task(read())
    while not reading.done():
        writer.write(more)
        await asyncio.sleep(0.05)
    with contextlib.suppress(ConnectionError):
        reading.result()
    writer.close()
    return b"".join(answered)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nX: ", b"x"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b""),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /", b"x"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", b"x"),
    ],
)
def test_a_client_that_does_not_go_on_is_ended(first: bytes, more: bytes) -> None:
    async def act(port: int, table: Table) -> None:
        answered = await is_ended(port, first, more)
        assert answered.startswith(b"HTTP/1.1 200") == (b"\r\n\r\n" in first)
        while len(table):
            await asyncio.sleep(0.01)

    serving(act)


def test_a_client_that_does_not_read_is_ended() -> None:
    async def act(port: int, table: Table) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        while not len(table):
            await asyncio.sleep(0.01)
        while len(table):
            await asyncio.sleep(0.01)
        writer.close()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(len(LARGE))

    serving(act)


@pytest.mark.parametrize("reads", [True, False])
def test_a_stream_is_ended_only_if_its_client_does_not_read(reads: bool) -> None:
    async def act(port: int, table: Table) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        if reads:
            for _ in range(8):
                await asyncio.sleep(0.2)  # together more than the limit
                await reader.readexactly(len(LARGE) // 8)
            await asyncio.sleep(0.5)
            assert len(table) == 1
            writer.close()
        while len(table):
            await asyncio.sleep(0.01)
        writer.close()

    serving(act)


def test_a_table_of_connections_that_speak_no_tls_has_room(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("localhost")
    context = Certificate(authority.chain, authority.key).context
    trusted = ssl.create_default_context(cafile=authority.ca)

    async def act(port: int, table: Table) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusted, server_hostname="localhost"
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read(-1)).startswith(b"HTTP/1.1 200")
        assert len(table) <= 10
        for _, stream_writer in [*silent, (reader, writer)]:
            stream_writer.close()
        while len(table):
            await asyncio.sleep(0.01)

    serving(act, 10, context)
