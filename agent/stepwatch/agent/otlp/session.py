"""Requests to an OTLP receiver, whose answers are read up to a bound in size and in time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import requests

from stepwatch.signals.access.bounded import TooLongError, TooSlowError, read_within

MOST_BYTES = 64 << 10
"""An answer is a message of a few hundred bytes; what is beyond is not read."""
ANSWER_SECONDS = 10.0
"""From the head of an answer to its end."""


class BoundedSession(requests.Session):
    """Gives each answer to `seen` as (status, body) before the exporter looks at it."""

    def __init__(self, seen: Callable[[int, bytes], None]) -> None:
        super().__init__()
        self._seen = seen
        self.headers["accept-encoding"] = "identity"

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send, and read the answer: whole, or as much of it as there is within the bounds."""
        answer = super().send(request, **{**options, "stream": True})
        try:
            body = _read(answer)
        finally:
            answer.close()
        self._seen(answer.status_code, body)
        return _like(answer, body)


def _read(answer: requests.Response) -> bytes:
    # Nothing bounds what requests decompresses.
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise requests.exceptions.ContentDecodingError("the answer is compressed, unasked")
    try:
        pieces = answer.iter_content(1)  # a larger one would wait until it is full
        return read_within(pieces, MOST_BYTES, ANSWER_SECONDS)
    except (TooLongError, TooSlowError) as error:
        return error.data


def _like(answer: requests.Response, body: bytes) -> requests.Response:
    made = requests.Response()
    made.status_code, made.reason = answer.status_code, answer.reason
    made.headers, made.url, made.request = answer.headers, answer.url, answer.request
    made.raw = io.BytesIO(body)
    return made
