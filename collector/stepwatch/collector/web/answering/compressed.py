"""Compresses JSON answers for readers that accept it."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

LEAST_BYTES = 1000
"""A shorter answer fits a packet all the same."""
LEVEL = 1
"""JSON of numbers shrinks to a quarter; level 9 takes six times as long for a tenth less."""
_OTHERS = ("/v1/segments", "/v1/events")
"""Agents get short answers; events must not wait in a compressor."""


class Compressed:
    """ASGI middleware for answers below `/v1`; traces are compressed already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(app, LEAST_BYTES, LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request."""
        path = scope["path"] if scope["type"] == "http" else ""
        compresses = path.startswith("/v1/") and path not in _OTHERS
        await (self._compressing if compresses else self._app)(scope, receive, send)
