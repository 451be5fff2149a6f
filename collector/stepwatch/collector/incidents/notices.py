"""Incident notices: to pagers the begin and end of alerts, to recorders each transition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.states import ALERT, OPEN
from stepwatch.collector.store.incidents.outbox import Notice

from .transitions import MAX_TIMELINE

OPENED, CHANGED, RESOLVED = "opened", "changed", "resolved"
"""An incident's transitions; a merge, or the end of its job, counts as resolved."""
_STATED = ("cause", "phase", "node", "severity")
"""Fields whose change is a transition; numbers change in each evaluation."""


class Recipients(NamedTuple):
    """Receivers by name: pagers get alerts, recorders each transition of each incident."""

    pagers: Sequence[str] = ()
    recorders: Sequence[str] = ()


def notices_of(
    previous: Mapping[str, Incident],
    moved: Iterable[Incident],
    now: float,
    pagers: Sequence[str],
    recorders: Sequence[str] = (),
) -> list[Notice]:
    """Return the transitions from `previous` to `moved` incidents at `now` (Unix seconds).

    Each has its own key, so that a receiver recognises duplicates.
    """
    notices = []
    for incident in moved:
        known = previous.get(incident.id)
        for transition, receivers in (
            (_page(known, incident), pagers),
            (_event(known, incident), recorders),
        ):
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


def _event(previous: Incident | None, current: Incident) -> str | None:
    """Return an incident's transition for a recorder.

    A full timeline ends its changes: a flapping cause must not fill the outbox.
    """
    was, is_open = previous is not None and previous.state == OPEN, current.state == OPEN
    if was != is_open:
        return OPENED if is_open else RESOLVED
    if previous is None or not is_open or len(previous.timeline) >= MAX_TIMELINE:
        return None
    is_changed = any(getattr(previous, name) != getattr(current, name) for name in _STATED)
    return CHANGED if is_changed else None


def _page(previous: Incident | None, current: Incident) -> str | None:
    was, pages = previous is not None and _is_worth_a_page(previous), _is_worth_a_page(current)
    if was == pages:
        return None
    return OPENED if pages else RESOLVED


def _is_worth_a_page(incident: Incident) -> bool:
    return incident.state == OPEN and incident.severity == ALERT
