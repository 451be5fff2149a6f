"""What a collector answers: a verdict for each segment, and the formats it reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from stepwatch.signals.access.bounded import TooLongError, TooSlowError, read_within
from stepwatch.signals.pacing import FLUSH_HEADER

from .bounded import check_coding

LEGACY_FORMATS = frozenset({2})
"""What a collector reads that announces no formats."""

MAX_BYTES = 1 << 20
"""Most bytes of an answer that are read; what is longer was not written by a collector."""
MAX_SECONDS = 20.0
"""Longest time from the first byte of an answer to its last; segments wait meanwhile."""
MAX_REASON = 300
"""Characters of a reason that are kept."""


class Verdict(NamedTuple):
    """What the collector says of one segment, and why."""

    word: str
    reason: str


class Answer(NamedTuple):
    """An answer to `POST /v1/segments`."""

    verdicts: list[Verdict]
    formats: frozenset[int]
    reads_nodes: bool
    """Whether the collector reads what an agent reports of its node, beside segments of jobs."""


def read_body(response: httpx.Response, seconds: float = MAX_SECONDS) -> bytes:
    """Body of a streamed response, at most `MAX_BYTES` of it.

    Raises:
        httpx.HTTPError: the connection breaks, the body is compressed, or it has not come to its
            end within `seconds`: a timeout of the client starts anew with every byte.
    """
    check_coding(response)
    try:
        return read_within(response.iter_bytes(), MAX_BYTES, seconds)  # as sent, see above
    except TooLongError as error:
        return error.data
    except TooSlowError as error:
        raise httpx.ReadTimeout(f"the answer has not ended within {seconds:.0f} s") from error


def read_answer(body: bytes) -> Answer:
    """Read an answer; how many verdicts it must have is for the caller to compare.

    Raises:
        ValueError: it is not a collector's.
    """
    try:
        document = json.loads(body)
    except RecursionError as error:  # of brackets inside brackets
        raise ValueError(_FOREIGN) from error
    if not isinstance(document, dict):
        raise ValueError(_FOREIGN)
    verdicts, formats = _verdicts(document.get("verdicts")), _formats(document.get("formats"))
    return Answer(verdicts, formats, document.get("nodes") is True)


def read_asked_seconds(headers: Mapping[str, str]) -> float:
    """How often the collector asks agents to flush; 0 where it does not, or asks for nonsense."""
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


def _formats(numbers: Any) -> frozenset[int]:
    if numbers is None:
        return LEGACY_FORMATS
    if (
        not isinstance(numbers, list)
        or not numbers
        or not all(type(item) is int for item in numbers)
    ):
        raise ValueError(_FOREIGN)
    return frozenset(numbers)
