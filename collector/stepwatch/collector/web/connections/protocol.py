"""HTTP/1.1 of uvicorn, with a time limit on each stage of a request."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from .table import Connection, Stage, Table

HEAD_SECONDS = 10.0
"""From the connection, or the answer before, to the last byte of a request's head; TLS included."""
DISCARD_SECONDS = 5.0
"""For the rest of a body that was answered before it came: a client that writes reads no answer."""
READ_SECONDS = 60.0
"""For a client to read an answer that does not fit into the socket's buffers."""
_SECONDS = {Stage.HEAD: HEAD_SECONDS, Stage.DISCARD: DISCARD_SECONDS}


class TimedProtocol(H11Protocol):
    """Reports its stages to `table`, which knows when each must end.

    uvicorn itself has a limit only for the time between two requests. How long a body takes is up
    to the handler that reads it.
    """

    def __init__(
        self, config: Config, state: ServerState, table: Table, connection: Connection
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._table = table
        self._connection = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The socket is open, and TLS spoken where it is to be."""
        super().connection_made(transport)
        self._connection.close = transport.abort

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._table.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The client sent something."""
        super().data_received(data)
        self._update_stage()

    def on_response_complete(self) -> None:
        """An answer was written."""
        super().on_response_complete()
        self._update_stage()

    def pause_writing(self) -> None:
        """The client does not read as fast as the answer is written."""
        super().pause_writing()
        if self._connection.due == math.inf:
            self._table.move(self._connection, self._stage(), self.loop.time() + READ_SECONDS)

    def _update_stage(self) -> None:
        stage = self._stage()
        if stage is not self._connection.stage:
            due = self.loop.time() + _SECONDS.get(stage, math.inf)
            self._table.move(self._connection, stage, due)

    def _stage(self) -> Stage:
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            return Stage.DISCARD if self.conn.their_state is h11.SEND_BODY else Stage.HEAD
        return Stage.BODY if cycle.more_body else Stage.ANSWER
