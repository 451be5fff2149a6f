"""Collector answers: a verdict per segment, and the supported formats."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwatch.signals import http
from stepwatch.signals.access.bounded import TooLongError, read_within
from stepwatch.signals.pacing import FLUSH_HEADER
from stepwatch.signals.profiles import MOST_REQUESTS, NodeRequest

MAX_BYTES = 1 << 20
"""Maximum bytes read from an answer; a longer one is not from a collector."""
MAX_SECONDS = 20.0
"""Maximum seconds from an answer's first byte to its last; segments wait meanwhile."""
MAX_REASON = 300
"""Maximum characters kept from a reason."""


class Verdict(NamedTuple):
    """The collector's verdict on one segment, with its reason."""

    word: str
    reason: str


class Answer(NamedTuple):
    """An answer to `POST /v1/segments`; `profiles` are the open requests to this node."""

    verdicts: list[Verdict]
    formats: frozenset[int]
    profiles: tuple[NodeRequest, ...] = ()


def read_body(response: http.Answer, seconds: float | None = None) -> bytes:
    """Return a streamed response's body, up to `MAX_BYTES`.

    Raises:
        HttpError: the connection breaks, or the body does not end within `seconds`, by default
            `MAX_SECONDS`.
    """
    try:
        return read_within(response.pieces(MAX_SECONDS if seconds is None else seconds), MAX_BYTES)
    except TooLongError as error:
        return error.data


def read_answer(body: bytes) -> Answer:
    """Parse an answer; the caller compares the number of verdicts.

    Raises:
        ValueError: the answer is not a collector's.
    """
    try:
        document = json.loads(body)
    except RecursionError as error:  # deeply nested brackets
        raise ValueError(_FOREIGN) from error
    if not isinstance(document, dict):
        raise ValueError(_FOREIGN)
    verdicts, formats = _verdicts(document.get("verdicts")), _formats(document.get("formats"))
    return Answer(verdicts, formats, _profiles(document.get("profiles")))


def read_asked_seconds(headers: Mapping[str, str]) -> float:
    """Return the requested flush interval; 0 if there is none or it is invalid."""
    try:
        seconds = float(headers.get(FLUSH_HEADER, ""))
    except ValueError:
        return 0.0
    return seconds if 0.0 < seconds < math.inf else 0.0


_FOREIGN = "the answer is not a collector's; check --collector"


def _verdicts(entries: Any) -> list[Verdict]:
    if not isinstance(entries, list):
        raise ValueError(_FOREIGN)
    if not all(isinstance(item, dict) and isinstance(item.get("verdict"), str) for item in entries):
        raise ValueError(_FOREIGN)
    return [Verdict(item["verdict"], str(item.get("reason"))[:MAX_REASON]) for item in entries]


def _profiles(entries: Any) -> tuple[NodeRequest, ...]:
    """Return the valid requests; an earlier collector sends none."""
    parsed = map(NodeRequest.parse, entries[:MOST_REQUESTS] if isinstance(entries, list) else ())
    return tuple(request for request in parsed if request is not None)


def _formats(numbers: Any) -> frozenset[int]:
    if (
        not isinstance(numbers, list)
        or not numbers
        or not all(type(item) is int for item in numbers)
    ):
        raise ValueError(_FOREIGN)
    return frozenset(numbers)
