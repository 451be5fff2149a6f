"""The newest profile of an incident's rank, as an evidence row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stepwatch.collector.store.profiles import ProfileState, Request


def with_profiles(
    incidents: Iterable[dict[str, Any]], requests: Iterable[Request]
) -> list[dict[str, Any]]:
    """Return incident documents; one whose rank was profiled while open has it as first evidence.

    `requests` are newest first; a compared one is shown before others.
    """
    newest = sorted(requests, key=lambda request: request.state is not ProfileState.COMPARED)
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
            "text": _words(request),
        }


def _words(request: Request) -> str:
    if request.is_open:
        return "a profile is requested"
    prefix = "" if request.state is ProfileState.COMPARED else "failed: "
    return prefix + request.sentence
