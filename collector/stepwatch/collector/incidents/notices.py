"""Incident notices: it opened, its cause changed, or it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepwatch.collector.incidents.model import ALERT, OPEN, Incident
from stepwatch.collector.store.outbox import Notice

OPENED, CHANGED_CAUSE, RESOLVED = "opened", "changed-cause", "resolved"
"""An incident's transitions; a merge, or the end of its job, counts as resolved."""


EVERYTHING = ""
"""The receiver of all transitions; every other receiver is a pager."""


def notices_of(
    previous: Mapping[str, Incident],
    moved: Iterable[Incident],
    now: float,
    receivers: Sequence[str] = (EVERYTHING,),
) -> list[Notice]:
    """Return the transitions from `previous` to `moved` incidents at `now` (Unix seconds).

    Each has its own key, so that a receiver recognises duplicates. A pager gets the beginning and
    the end of incidents that raise an alert.
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
