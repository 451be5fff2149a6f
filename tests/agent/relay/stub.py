"""A collector that answers as one of another version would, or that fails on some segments."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import Kind
from tests.agent.conftest import serving


class Collector:
    """Reads `formats`, announces them, and answers as its version would."""

    def __init__(self, *formats: int) -> None:
        self.formats = set(formats or wire.READABLE_FORMATS)
        self.word = ""
        """A verdict for every segment instead of its own."""
        self.taken: list[bytes] = []
        self.requests = 0
        self.fails: Callable[[bytes], bool] = lambda body: False
        """Whether a request with this body is answered with `status`."""
        self.status = 503

    async def __call__(
        self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]
    ) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.requests += 1
        if self.fails(body):
            await send({"type": "http.response.start", "status": self.status, "headers": []})
            await send({"type": "http.response.body", "body": b"the database refuses it"})
            return
        verdicts = [self._verdict(piece) for piece in wire.split(body)]
        answer = {"verdicts": verdicts, "formats": sorted(self.formats)}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def _reads(self, piece: bytes) -> bool:
        try:
            return wire.format_of(piece) in self.formats
        except SegmentError:
            return False

    def _verdict(self, piece: bytes) -> dict[str, Any]:
        if self.word:
            return {"verdict": self.word, "sequence": None, "reason": "because"}
        if not self._reads(piece):
            return {"verdict": "unsupported", "sequence": None, "reason": "unknown format"}
        word = "duplicate" if piece in self.taken else "accepted"
        self.taken.append(piece)
        return {"verdict": word, "sequence": None, "reason": ""}

    def steps(self) -> list[int]:
        """Steps of all segments taken that this version can decode, in the order they came."""
        numbers: list[int] = []
        for data in self.taken:
            if wire.format_of(data) in wire.READABLE_FORMATS:
                tables = wire.decode(data).tables
                numbers += tables[Kind.STEP]["step"].tolist() if Kind.STEP in tables else []
        return numbers


@contextmanager
def serve_url(collector: Collector) -> Iterator[str]:
    with serving(collector) as url:
        yield url
