"""uvicorn's HTTP/1.1 with a time limit per request stage."""

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
"""Limit for a request head, from the connection or the previous answer; includes TLS."""
DISCARD_SECONDS = 5.0
"""Limit for the rest of a body that was answered early: a writing client reads no answer."""
READ_SECONDS = 60.0
"""Limit for a client to read an answer larger than the socket buffers."""
_SECONDS = {Stage.HEAD: HEAD_SECONDS, Stage.DISCARD: DISCARD_SECONDS}


class TimedProtocol(H11Protocol):
    """Reports its stages to `table`, which holds the deadlines.

    uvicorn limits only the time between two requests. The handler that reads a body limits its
    time.
    """

    def __init__(
        self, config: Config, state: ServerState, table: Table, connection: Connection
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._table = table
        self._connection = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Handle an open socket, after TLS if configured."""
        super().connection_made(transport)
        self._connection.close = transport.abort

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle a closed socket."""
        self._table.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle received data."""
        super().data_received(data)
        self._update_stage()

    def on_response_complete(self) -> None:
        """Handle a completed answer."""
        super().on_response_complete()
        self._update_stage()

    def pause_writing(self) -> None:
        """Handle a client that reads slower than the answer is written."""
        super().pause_writing()
        if self._connection.due == math.inf:
            self._table.move(self._connection, self._stage(), self.loop.time() + READ_SECONDS)

    def resume_writing(self) -> None:
        """Handle a client that has read what was written: an endless answer has no limit again."""
        super().resume_writing()
        if self.is_endless:
            self._table.move(self._connection, self._stage(), math.inf)

    @property
    def is_endless(self) -> bool:
        """Whether an answer without an end is being sent: an event stream."""
        cycle: Any = self.cycle
        return (
            cycle is not None
            and not cycle.response_complete
            and bool(cycle.scope.get("state", {}).get("is_endless"))
        )

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
