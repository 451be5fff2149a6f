"""One event stream as an answer without an end."""

from __future__ import annotations

import asyncio
import json

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from .hub import Hub
from .log import event, resync
from .topics import FLEET, JOB, Topics

BEAT_SECONDS = 15.0
"""Silence after which a comment is sent; proxies close a connection after a minute without data."""
LIFE_SECONDS = 900.0
"""A stream ends by itself; the client connects again, with a token that is still in force."""
AGAIN_MILLISECONDS = 2000
"""Time after which a client should connect again."""
HEADERS = {
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
"""No proxy may keep events back."""


class EventStream(Response):
    """Sends the events on some topics.

    `cursor` names the client's newest event, empty without one.
    """

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, topics: Topics, cursor: str) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._hub, self._topics, self._cursor = hub, topics, cursor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client leaves, the collector stops, or the stream's life is over."""
        scope.setdefault("state", {})["is_endless"] = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        loop = asyncio.get_running_loop()
        position = self._hub.log.position_of(self._cursor) if self._cursor else None
        subscription = (
            self._hub.enter(self._topics)
            if position is None
            else self._hub.enter(self._topics, position)
        )
        leaving = asyncio.create_task(_left(receive))
        leaving.add_done_callback(lambda _: subscription.woken.set())
        ends_s = loop.time() + LIFE_SECONDS
        try:
            await send(_part(self._beginning(is_lost=bool(self._cursor) and position is None)))
            beat_s = loop.time() + BEAT_SECONDS
            while not (leaving.done() or loop.time() > ends_s):
                if self._hub.is_closed or subscription.is_over:
                    break
                subscription.woken.clear()
                text = self._hub.text_for(subscription)
                if not text and loop.time() >= beat_s:
                    text = b": the collector answers\n\n"
                if text:
                    await send(_part(text))
                    beat_s = loop.time() + BEAT_SECONDS
                else:
                    await subscription.woken.wait()
        finally:
            leaving.cancel()
            self._hub.leave(subscription)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _beginning(self, *, is_lost: bool) -> bytes:
        """Return the first text: it arrives at once, unless a proxy keeps it back."""
        about = {"beat_seconds": BEAT_SECONDS}
        text = f"retry: {AGAIN_MILLISECONDS}\n".encode()
        text += event("open", json.dumps(about).encode())
        if is_lost:
            fleet = [FLEET] if self._topics.fleet else []
            text += resync([*fleet, *(JOB + job for job in sorted(self._topics.jobs))])
        return text


def _part(text: bytes) -> Message:
    return {"type": "http.response.body", "body": text, "more_body": True}


async def _left(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
