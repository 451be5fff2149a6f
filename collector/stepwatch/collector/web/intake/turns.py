"""Fair turns between clients for a limited resource."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

TURN_SECONDS = 3.0
"""Maximum wait for a turn; an agent waits ten seconds for its answer."""


class Turns:
    """At most `most` concurrent turns, round robin over clients.

    A heavy sender delays only itself.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def acquire(self, client: str) -> AsyncIterator[None]:
        """Hold one turn until the context ends.

        Raises:
            TimeoutError: no turn was free within `TURN_SECONDS`.
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
            if turn.done() and not turn.cancelled():  # granted at the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            self._waiting.move_to_end(client)
            if not turns:
                del self._waiting[client]
            if not turn.done():  # skip abandoned waiters
                turn.set_result(None)
                return
        self._free += 1
