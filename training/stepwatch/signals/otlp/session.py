"""Requests to an OTLP receiver, with bounds on the answer's size and time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import requests

from stepwatch.signals.access.bounded import TooLongError, TooSlowError, read_within

MOST_BYTES = 64 << 10
"""An answer is a message with a few hundred bytes; the excess is not read."""
ANSWER_SECONDS = 10.0
"""Seconds from an answer's head to its end."""


class BoundedSession(requests.Session):
    """Pass each answer to `observe` as (status, body) before the exporter reads it."""

    def __init__(self, observe: Callable[[int, bytes], None]) -> None:
        super().__init__()
        self._observe = observe
        self.headers["accept-encoding"] = "identity"

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send, and read the answer completely or up to the bounds."""
        answer = super().send(request, **{**options, "stream": True})
        try:
            body = _read(answer)
        finally:
            answer.close()
        self._observe(answer.status_code, body)
        return _copied(answer, body)


def _read(answer: requests.Response) -> bytes:
    # requests sets no limit on decompressed data.
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise requests.exceptions.ContentDecodingError("the answer is compressed, unasked")
    try:
        pieces = answer.iter_content(1)  # a larger piece would wait until it is full
        return read_within(pieces, MOST_BYTES, ANSWER_SECONDS)
    except (TooLongError, TooSlowError) as error:
        return error.data


def _copied(answer: requests.Response, body: bytes) -> requests.Response:
    response = requests.Response()
    response.status_code, response.reason = answer.status_code, answer.reason
    response.headers, response.url, response.request = answer.headers, answer.url, answer.request
    response.raw = io.BytesIO(body)
    return response
