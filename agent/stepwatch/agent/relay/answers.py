"""Collector answers: a verdict per segment, and the supported formats."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from stepwatch.signals.access.bounded import TooLongError, TooSlowError, read_within
from stepwatch.signals.pacing import FLUSH_HEADER
from stepwatch.signals.profiles import MOST_REQUESTS, NodeRequest

from .bounded import check_coding

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


def read_body(response: httpx.Response, seconds: float = MAX_SECONDS) -> bytes:
    """Return a streamed response's body, up to `MAX_BYTES`.

    Raises:
        httpx.HTTPError: the connection breaks, the body is compressed, or it does not end within
            `seconds` (the client's own timeout restarts with every byte).
    """
    check_coding(response)
    try:
        return read_within(response.iter_bytes(), MAX_BYTES, seconds)  # uncompressed, see above
    except TooLongError as error:
        return error.data
    except TooSlowError as error:
        raise httpx.ReadTimeout(f"the answer has not ended within {seconds:.0f} s") from error


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
