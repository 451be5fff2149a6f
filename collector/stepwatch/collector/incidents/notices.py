"""Incident notices: the beginning and the end of an incident that raises an alert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepwatch.collector.incidents.model import ALERT, OPEN, Incident
from stepwatch.collector.store.outbox import Notice

OPENED, RESOLVED = "opened", "resolved"
"""An incident's transitions; a merge, or the end of its job, counts as resolved."""


def notices_of(
    previous: Mapping[str, Incident],
    moved: Iterable[Incident],
    now: float,
    receivers: Sequence[str],
) -> list[Notice]:
    """Return the transitions from `previous` to `moved` incidents at `now` (Unix seconds).

    Each has its own key, so that a receiver recognises duplicates.
    """
    notices = []
    for incident in moved:
        transition = _transition(previous.get(incident.id), incident)
        if transition is not None:
            notices += [_notice(incident, transition, now, receiver) for receiver in receivers]
    return notices


def _notice(incident: Incident, transition: str, now: float, receiver: str) -> Notice:
    key = f"{incident.id}:{transition}:{now:.3f}:{receiver}"
    document: dict[str, Any] = {
        "key": key,
        "transition": transition,
        "at": now,
        "incident": incident.document(),
    }
    return Notice(key, incident.job, document, receiver, incident.id, transition)


def _transition(previous: Incident | None, current: Incident) -> str | None:
    was, pages = previous is not None and _is_worth_a_page(previous), _is_worth_a_page(current)
    if was == pages:
        return None
    return OPENED if pages else RESOLVED


def _is_worth_a_page(incident: Incident) -> bool:
    return incident.state == OPEN and incident.severity == ALERT
