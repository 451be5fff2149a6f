"""Turns at something that few may do at once, fair between clients."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TURN_SECONDS = 3.0
"""Longest wait for a turn; an agent waits ten seconds for its answer."""


class Turns:
    """At most `most` at once. Clients that wait take turns: one that sends much delays itself."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def acquire(self, client: str) -> AsyncIterator[None]:
        """One turn, from when it comes until the context ends.

        Raises:
            TimeoutError: it did not come within `TURN_SECONDS`.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, client: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turn
        except (TimeoutError, asyncio.CancelledError):
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            self._waiting.move_to_end(client)
            if not turns:
                del self._waiting[client]
            if not turn.done():  # or it waits no more
                turn.set_result(None)
                return
        self._free += 1
