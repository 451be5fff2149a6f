"""The newest profile of an incident's rank, as an evidence row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stepwatch.collector.store.profiles import Request


def with_profiles(
    incidents: Iterable[dict[str, Any]], requests: Iterable[Request]
) -> list[dict[str, Any]]:
    """Return incident documents; one whose rank was profiled while open has it as first evidence.

    `requests` are compared ones, newest first.
    """
    newest = list(requests)
    return [
        {**incident, "evidence": [*_rows(incident, newest), *incident["evidence"]]}
        for incident in incidents
    ]


def _rows(incident: dict[str, Any], requests: Iterable[Request]) -> Iterator[dict[str, Any]]:
    request = next(
        (request for request in requests if incident["id"] in request.wanted.incidents), None
    )
    if request is not None:
        wanted = request.wanted
        last = wanted.first_step + wanted.steps - 1
        yield {
            "name": "profile",
            "value": None,
            "unit": "",
            "against": f"rank {wanted.peer}, steps {wanted.first_step} to {last}",
            "text": request.sentence,
        }
