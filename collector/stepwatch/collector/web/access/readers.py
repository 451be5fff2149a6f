"""Limits concurrent readers, so that agents always get a thread."""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SECONDS = 10.0
"""Time limit for a client to send its request body."""
MOST_BODY_BYTES = 16_384
MOST_AT_ONCE = 20
"""Maximum number of concurrent readers.

Handlers share 40 threads (anyio's default); agents have 16 requests, Prometheus and the probes the
rest.
"""

UNCOUNTED = frozenset({"/v1/events"})
"""Paths whose answers hold no thread; event streams have a limit of their own."""


class Readers:
    """ASGI middleware that answers 429 while too many readers are active."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, or tell the client to retry."""
        path = scope["path"] if scope["type"] == "http" else ""
        if not path.startswith("/v1/") or path == "/v1/segments":
            await self._app(scope, receive, send)
            return
        try:
            receive = await _body_first(receive)
        except TimeoutError:
            text = f"the body did not arrive within {BODY_SECONDS:.0f} s"
            await JSONResponse({"error": text}, 408)(scope, receive, send)
            return
        if path in UNCOUNTED:
            await self._app(scope, receive, send)
            return
        if self._inside >= MOST_AT_ONCE:
            text = f"{MOST_AT_ONCE} readers are being answered; ask again in a second"
            await JSONResponse({"error": text}, 429, {"retry-after": "1"})(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1


async def _body_first(receive: Receive) -> Receive:
    """Wait for the body, or for more than the size limit, and return a `receive` that replays it.

    Raises:
        TimeoutError: the body did not arrive in time.
    """
    messages: list[Message] = []
    size = 0
    async with asyncio.timeout(BODY_SECONDS):
        while size <= MOST_BODY_BYTES:
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
            if not messages[-1].get("more_body"):
                break

    async def repeat() -> Message:
        return messages.pop(0) if messages else await receive()

    return repeat
