"""What a collector answers: a verdict for each segment, and the formats it reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx

LEGACY_FORMATS = frozenset({2})
"""What a collector reads that announces no formats."""


class Verdict(NamedTuple):
    """What the collector says of one segment, and why."""

    word: str
    reason: str


class Answer(NamedTuple):
    """An answer to `POST /v1/segments`."""

    verdicts: list[Verdict]
    formats: frozenset[int]


def read_answer(response: httpx.Response) -> Answer:
    """Read an answer; how many verdicts it must have is for the caller to compare.

    Raises:
        ValueError: it is not a collector's.
    """
    document = response.json()
    if not isinstance(document, dict):
        raise ValueError(_FOREIGN)
    return Answer(_verdicts(document.get("verdicts")), _formats(document.get("formats")))


_FOREIGN = "the answer is not a collector's; check --collector"


def _verdicts(found: Any) -> list[Verdict]:
    if not isinstance(found, list):
        raise ValueError(_FOREIGN)
    if not all(isinstance(item, dict) and isinstance(item.get("verdict"), str) for item in found):
        raise ValueError(_FOREIGN)
    return [Verdict(item["verdict"], str(item.get("reason"))) for item in found]


def _formats(found: Any) -> frozenset[int]:
    if found is None:
        return LEGACY_FORMATS
    if not isinstance(found, list) or not found or not all(type(item) is int for item in found):
        raise ValueError(_FOREIGN)
    return frozenset(found)
