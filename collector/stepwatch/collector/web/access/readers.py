"""Bounds how many readers are answered at once, so that agents always find a thread."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_AT_ONCE = 20
"""Handlers share 40 threads (anyio's default); agents have 16 requests, Prometheus and the probes
the rest."""


class Readers:
    """An ASGI application in front of another one: 429 to those who ask while too many do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer that it is to come again."""
        path = scope["path"] if scope["type"] == "http" else ""
        if not path.startswith("/v1/") or path == "/v1/segments":
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
