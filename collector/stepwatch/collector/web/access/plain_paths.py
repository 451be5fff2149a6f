"""Rejects control characters in URLs: no stored name has one.

PostgreSQL refuses NUL in any value, which looks like a store outage.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class PlainPaths:
    """ASGI middleware against control characters and invalid UTF-8.

    404 for a path, 400 for a query.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse an invalid request, and forward every other one."""
        answer = _refusal(scope) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)


def _refusal(scope: Scope) -> JSONResponse | None:
    if not _is_plain(scope["path"].encode("utf-8", "surrogateescape")):
        return JSONResponse({"error": "no such page: its path has a control character"}, 404)
    if not _is_plain(unquote_to_bytes(scope["query_string"].replace(b"+", b" "))):
        return JSONResponse({"error": "the query has a control character; leave it out"}, 400)
    return None


def _is_plain(content: bytes) -> bool:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(ord(character) < 0x20 or ord(character) == 0x7F for character in text)
