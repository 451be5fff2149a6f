"""`POST /v1/segments`: reads the body, then waits for a turn to store it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from stepwatch.collector.ingest.receive import (
    MAX_BODY_BYTES,
    MAX_ROWS,
    TooManyRowsError,
)
from stepwatch.collector.runtime.attention import AgentOfJob
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.access.gate import NODE, OVERLOAD, RATE, Refusals
from stepwatch.collector.web.access.nodes import why_foreign
from stepwatch.collector.web.documents import encoded
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.pacing import FLUSH_HEADER

from .bodies import BODY_SECONDS, Bodies, NoMemoryError, TooLargeError, TooSlowError
from .open_requests import OpenRequests
from .rates import Rates
from .turns import Turns

MOST_STORED_AT_ONCE = 16
"""Maximum number of requests that decode and store segments concurrently.

Each has a reserved thread; readers use other threads and may keep all of those busy.
"""
MEDIA_TYPES = frozenset({"", wire.MEDIA_TYPE, "application/octet-stream"})
"""Accepted media types for segments. Agents of 0.1.0 send none.

No HTML form type is included, and a script on another site is refused by its origin.
"""

MOST_NAMED = 64
"""Maximum number of segments whose sender is looked up; an agent sends as many in a request."""

T = TypeVar("T")


class SegmentsApi:
    """The segment handler."""

    def __init__(self, service: Service, refusals: Refusals) -> None:
        self._service, self._refusals = service, refusals
        self.bodies = Bodies()
        """All bodies in transfer; traces count, too."""
        self._rates = Rates()
        self._profiles = OpenRequests(service.store.profiles)
        self._turns = Turns(MOST_STORED_AT_ONCE)
        self._threads: anyio.CapacityLimiter | None = None

    async def receive(self, request: Request) -> Response:
        """Store segments.

        Errors: 403 another node's segments, 408 too slow, 413 too large, 415 wrong type, 429 too
        many, 503 store down.
        """
        if _media_type(request) not in MEDIA_TYPES:
            return _problem(415, f"send segments as {wire.MEDIA_TYPE}")
        try:
            async with self.bodies.reading(request, MAX_BODY_BYTES) as body:
                return await self._answer(request, body)
        except ClientDisconnect:
            return _problem(400, "the request ended early")
        except TooLargeError:
            return _problem(413, f"send at most {MAX_BODY_BYTES} bytes at once")
        except TooManyRowsError:
            return _problem(413, f"send at most {MAX_ROWS:,} rows at once")
        except TooSlowError:
            return _problem(408, f"the body did not arrive within {BODY_SECONDS:.0f} s, or at once")
        except NoMemoryError:
            return self._overloaded("too many bytes are being sent")
        except TimeoutError:
            return self._overloaded("too many requests are being stored")

    async def _answer(self, request: Request, body: bytes) -> Response:
        node = getattr(request.state, "node", "")
        if node:
            foreign = await self._in_thread(lambda: why_foreign(body, node))
            if foreign:
                self._refusals.add(NODE)
                return _problem(403, foreign)
            seconds = self._rates.wait_for(node, len(body))
            if seconds:
                self._refusals.add(RATE)
                return _refused(f"node {node} sends more than one may", seconds)
        source = node or _peer(request)
        async with self._turns.acquire(source):
            return await self._in_thread(lambda: self._stored(body, source))

    async def _in_thread(self, act: Callable[[], T]) -> T:
        if self._threads is None:  # it requires a running event loop
            self._threads = anyio.CapacityLimiter(MOST_STORED_AT_ONCE)
        return await anyio.to_thread.run_sync(act, limiter=self._threads)

    def _stored(self, body: bytes, source: str) -> Response:
        verdicts = self._service.receive(body, source)
        asked_seconds = self._asked_seconds(body)
        document = {
            "verdicts": [verdict._asdict() for verdict in verdicts],
            "formats": list(wire.READABLE_FORMATS),
            "profiles": self._profiles.documents_for(body),
        }
        headers = _asking(asked_seconds)
        return Response(encoded(document), media_type="application/json", headers=headers)

    def _overloaded(self, message: str) -> Response:
        """Refuse a request; the agent keeps its segments, and sends fewer, larger ones."""
        pace = self._service.asked_pace
        pace.refused()
        self._refusals.add(OVERLOAD)
        return _refused(message, pace.retry_seconds, _asking(pace.seconds))

    def _asked_seconds(self, body: bytes) -> float:
        """Return the flush interval to ask the sender for; 0 for its own."""
        asked_seconds = self._service.asked_pace.seconds
        if not asked_seconds:
            return 0.0
        is_covered = self._service.attention.covers(_agents_of(body))
        return 0.0 if is_covered else asked_seconds


def _agents_of(body: bytes) -> Iterator[AgentOfJob]:
    """Yield the sender of each segment; a piece that names none is left out."""
    for piece in itertools.islice(wire.split(body), MOST_NAMED):
        with suppress(SegmentError):
            key = wire.peek_key(piece)
            yield AgentOfJob(key.job, key.node)


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _asking(seconds: float) -> dict[str, str]:
    return {FLUSH_HEADER: f"{seconds:g}"} if seconds else {}


def _refused(message: str, seconds: int, headers: Mapping[str, str] | None = None) -> Response:
    return _problem(429, message, {"retry-after": str(seconds), **(headers or {})})


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status_code=status, headers=headers)
