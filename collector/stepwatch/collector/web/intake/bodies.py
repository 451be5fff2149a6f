"""Bodies of requests while they arrive: bounded each, in time, and all together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

BODY_SECONDS = 30.0
"""Time a client has to send its body."""
FIRST_SECONDS = 10.0
LEAST_BYTES_PER_SECOND = 8192
"""After `FIRST_SECONDS` a body that arrives more slowly is refused: an agent that sends so slowly
never sends all that it records."""
MOST_BYTES_HELD = 256 << 20
"""Of all bodies that arrive or are being stored; four of the largest."""


class TooLargeError(Exception):
    """A body is larger than one may be."""


class TooSlowError(Exception):
    """A body did not arrive in time."""


class NoMemoryError(Exception):
    """All bodies together are too large, and this one is the largest that still arrives."""


class _Arriving:
    """One body: its parts so far, and the time limit of the task that reads it."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self.limit = limit
        self.parts: list[bytes] = []
        self.size = 0
        self.gives_way = False


class Bodies:
    """Reads bodies. Where all together are too large, the largest that still arrives gives way:
    few large ones keep no small one out."""

    def __init__(self) -> None:
        self._held_bytes = 0
        self._arriving: set[_Arriving] = set()

    @asynccontextmanager
    async def reading(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The body of a request, of at most `most` bytes; it counts until the context ends.

        Raises:
            TooLargeError, TooSlowError, NoMemoryError: as they say.
            ClientDisconnect: the client went away.
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
