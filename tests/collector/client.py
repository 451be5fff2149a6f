"""A client of the collector's ASGI application, without a socket."""

from __future__ import annotations

import asyncio

import httpx
from starlette.applications import Starlette


class Client:
    """Sends one request at a time; an error in the application is an error in the test."""

    def __init__(self, app: Starlette) -> None:
        self.headers: dict[str, str] = {}
        self._app = app

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._send("GET", path, b""))

    def post(self, path: str, content: bytes) -> httpx.Response:
        return asyncio.run(self._send("POST", path, content))

    def delete(self, path: str, content: bytes) -> httpx.Response:
        return asyncio.run(self._send("DELETE", path, content))

    async def _send(self, method: str, path: str, content: bytes) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._app)
        is_json = method != "GET" and path != "/v1/segments"
        headers = {"content-type": "application/json"} if is_json else {}
        headers |= self.headers
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            return await client.request(
                method, path, content=content, headers=headers | self.headers
            )
