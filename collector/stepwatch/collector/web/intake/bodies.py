"""Request bodies during arrival: limits on size, time, and total memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

BODY_SECONDS = 30.0
"""Time limit for a client to send its body."""
FIRST_SECONDS = 10.0
LEAST_BYTES_PER_SECOND = 8192
"""Minimum rate after `FIRST_SECONDS`: a slower agent can never send all that it records."""
MOST_BYTES_HELD = 256 << 20
"""Limit for all bodies in transfer or being stored; four of maximum size."""


class TooLargeError(Exception):
    """A body exceeds the size limit."""


class TooSlowError(Exception):
    """A body did not arrive in time."""


class NoMemoryError(Exception):
    """All bodies together exceed the limit, and this one is the largest still arriving."""


class _Arriving:
    """One body: its parts so far, and its reader task's timeout."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self.limit = limit
        self.parts: list[bytes] = []
        self.size = 0
        self.gives_way = False


class Bodies:
    """Reads bodies. If their total is too large, the largest one still arriving is dropped.

    A few large bodies therefore never block small ones.
    """

    def __init__(self) -> None:
        self._held_bytes = 0
        self._arriving: set[_Arriving] = set()

    @asynccontextmanager
    async def reading(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Yield a request's body with at most `most` bytes; it counts until the context ends.

        Raises:
            TooLargeError, TooSlowError, NoMemoryError: see there.
            ClientDisconnect: the client disconnected.
        """
        if _declared(request) > most:
            raise TooLargeError
        began = asyncio.get_running_loop().time()
        body = _Arriving(asyncio.timeout_at(began + min(FIRST_SECONDS, BODY_SECONDS)))
        try:
            await self._read(request, body, most, began)
            yield b"".join(body.parts)
        finally:
            self._held_bytes -= body.size

    async def _read(self, request: Request, body: _Arriving, most: int, began: float) -> None:
        self._arriving.add(body)
        try:
            async with body.limit:
                async for part in request.stream():
                    self._hold(body, part)
                    if body.size > most:
                        raise TooLargeError
                    if not body.gives_way:
                        seconds = FIRST_SECONDS + body.size / LEAST_BYTES_PER_SECOND
                        body.limit.reschedule(began + min(seconds, BODY_SECONDS))
        except TimeoutError as error:
            raise (NoMemoryError if body.gives_way else TooSlowError) from error
        finally:
            self._arriving.discard(body)

    def _hold(self, body: _Arriving, part: bytes) -> None:
        body.parts.append(part)
        body.size += len(part)
        self._held_bytes += len(part)
        if self._held_bytes <= MOST_BYTES_HELD:
            return
        arriving = [upload for upload in self._arriving if not upload.gives_way]
        largest = max(arriving, key=lambda upload: upload.size, default=body)
        largest.gives_way = True
        largest.limit.reschedule(0.0)


def _declared(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
