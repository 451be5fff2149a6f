"""What is worth telling somebody about an incident: it opened, its cause changed, it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepwatch.collector.incidents.model import ALERT, OPEN, Incident
from stepwatch.collector.store.outbox import Notice

OPENED, CHANGED_CAUSE, RESOLVED = "opened", "changed-cause", "resolved"
"""Transitions of an incident; one that is merged into another or ends with its job is resolved."""


EVERYTHING = ""
"""The receiver of all transitions; each other one is a pager."""


def notices_of(
    previous: Mapping[str, Incident],
    moved: Iterable[Incident],
    now: float,
    receivers: Sequence[str] = (EVERYTHING,),
) -> list[Notice]:
    """The transitions of incidents that moved, at `now` (Unix seconds), against those before.

    Each has a key of its own, so that a receiver knows what it has already. A pager gets the
    beginning and the end of what raises an alert.
    """
    notices = []
    for incident in moved:
        was = previous.get(incident.id)
        for receiver in receivers:
            transition = _page(was, incident) if receiver else _transition(was, incident)
            if transition is not None:
                notices.append(_notice(incident, transition, now, receiver))
    return notices


def _notice(incident: Incident, transition: str, now: float, receiver: str) -> Notice:
    key = f"{incident.id}:{transition}:{now:.3f}" + (f":{receiver}" if receiver else "")
    document: dict[str, Any] = {
        "key": key,
        "transition": transition,
        "at": now,
        "incident": incident.document(),
    }
    return Notice(key, incident.job, document, receiver, incident.id, transition)


def _page(previous: Incident | None, current: Incident) -> str | None:
    was, pages = previous is not None and _is_worth_a_page(previous), _is_worth_a_page(current)
    if was == pages:
        return None
    return OPENED if pages else RESOLVED


def _is_worth_a_page(incident: Incident) -> bool:
    return incident.state == OPEN and incident.severity == ALERT


def _transition(previous: Incident | None, current: Incident) -> str | None:
    was_open = previous is not None and previous.state == OPEN
    if current.state != OPEN:
        return RESOLVED if was_open else None
    if not was_open or previous is None:
        return OPENED
    return CHANGED_CAUSE if previous.cause != current.cause else None
