"""Accepts connections up to the limit, whatever the load."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from .protocol import HEAD_SECONDS
from .table import Connection, Table, peer_of

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""Interval between checks for overdue connections."""
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 1.0
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

MakeProtocol = Callable[[Connection], asyncio.Protocol]


class Listener:
    """Replaces uvicorn's asyncio server: `close`, then `wait_closed`.

    asyncio's own loop accepts until an error and logs every error: without a free descriptor that
    is thousands of lines a second.
    """

    def __init__(
        self,
        opened: socket.socket,
        table: Table,
        make_protocol: MakeProtocol,
        context: ssl.SSLContext | None,
    ) -> None:
        opened.setblocking(False)
        self._opened, self._table = opened, table
        self._make_protocol, self._context = make_protocol, context
        self._loop = asyncio.get_running_loop()
        self._opening: dict[asyncio.Task[None], socket.socket | None] = {}
        """Connections still being opened: TLS may take a while."""
        self._accepting = asyncio.create_task(self._accept_all())
        self._sweeping = asyncio.create_task(self._sweep())

    def close(self) -> None:
        """Stop accepting without waiting for clients: pending data was not acknowledged."""
        self._accepting.cancel()
        while self._table.make_room() is not None:
            pass

    async def wait_closed(self) -> None:
        """End the remaining tasks, after the last connection."""
        tasks = [self._accepting, self._sweeping, *self._opening]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept_all(self) -> None:
        delay = 0.0
        while True:
            try:
                opened, address = await self._loop.sock_accept(self._opened)
            except OSError as error:
                delay = min(max(2 * delay, _FIRST_DELAY), _LONGEST_DELAY)
                await self._recover(error, delay)
                continue
            delay = 0.0
            self._admit(opened, address)
            await asyncio.sleep(0)  # let other tasks run between accepts

    async def _recover(self, error: OSError, delay: float) -> None:
        logger.warning("cannot accept a connection: %s", error.strerror or error)
        if error.errno in _NO_DESCRIPTOR:
            self._table.make_room()
        await asyncio.sleep(delay)

    def _admit(self, opened: socket.socket, address: tuple[object, ...]) -> None:
        if opened.family in (socket.AF_INET, socket.AF_INET6):
            # A body that follows its head would wait 40 ms for the client's acknowledgement.
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._table.full and not self._make_room():
            opened.close()
            self._table.closed += 1
            return
        connection = Connection(peer_of(address), opened.close)
        self._table.add(connection, self._loop.time() + HEAD_SECONDS)
        task = asyncio.create_task(self._open(opened, connection))
        connection.close = task.cancel
        self._opening[task] = opened
        task.add_done_callback(self._end_opening)

    def _make_room(self) -> bool:
        closed = self._table.make_room()
        if closed is None:
            logger.warning(
                "%d connections are being answered: refused another one", len(self._table)
            )
            return False
        logger.warning(
            "%d connections are open, as many as may be: for each new one the oldest idle one of "
            "the peer with the most is closed, now %s", self._table.most, closed.peer,
        )  # fmt: skip
        return True

    async def _open(self, opened: socket.socket, connection: Connection) -> None:
        """Start TLS if configured, and hand the connection to its protocol."""
        task = asyncio.current_task()
        assert task is not None
        self._opening[task] = None  # from now on the transport closes it
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(connection),
                opened,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HEAD_SECONDS,
            )
        except (OSError, asyncio.CancelledError):  # the client disconnected, or does not use TLS
            self._table.remove(connection)

    def _end_opening(self, task: asyncio.Task[None]) -> None:
        """Close a socket whose task was cancelled before it began."""
        opened = self._opening.pop(task)
        if opened is not None:
            opened.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for connection in self._table.overdue(self._loop.time()):
                self._table.end(connection)
