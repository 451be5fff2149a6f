"""Decides about a due notice: send, hold, or give up. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepwatch.collector.incidents.notices import OPENED
from stepwatch.collector.incidents.states import OPEN
from stepwatch.collector.store.incidents.outbox import (
    ACKNOWLEDGED,
    OVER,
    PENDING,
    SILENCED,
    Claimed,
)
from stepwatch.collector.store.response import Silence
from stepwatch.collector.store.response.pages import Related
from stepwatch.collector.store.response.silences import covering

LATE_SECONDS = 3600.0
"""A notice sent later is marked as late, and is not sent if its incident has ended."""
AFTER_THE_EARLIER_SECONDS = 1.0
"""Delay before an end is reconsidered while its beginning is still pending."""
SILENCED_SECONDS = 15.0
"""Delay before a silenced page is reconsidered: a silence may be expired early."""
_NEVER_SENT = (OVER, SILENCED, ACKNOWLEDGED)


class Decision(NamedTuple):
    """Send `document` if there is one.

    Otherwise `wait` seconds, `give_up` for a reason, or, if the beginning was summarised, defer to
    that `storm`.
    """

    document: dict[str, Any] | None = None
    wait: float = 0.0
    give_up: str = ""
    storm: str = ""
    silenced: bool = False


@dataclass(frozen=True)
class Facts:
    """Facts about the incidents in notices, by incident id.

    They hold the state, the related notices to this receiver, the acknowledged incidents, and the
    silences in force at `now`.
    """

    now: float
    silences: Sequence[Silence] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    related: Mapping[str, Sequence[Related]] = field(default_factory=dict)
    acknowledged: frozenset[str] = frozenset()


def decide(notice: Claimed, facts: Facts, *, records: bool = False) -> Decision:
    """Return the decision about a notice; a receiver that `records` gets each in its order."""
    document = notice.document
    related = facts.related.get(notice.incident, ())
    earlier = [entry for entry in related if entry.at < document["at"] and entry.key != notice.key]
    if any(entry.state == PENDING for entry in earlier):
        return Decision(wait=AFTER_THE_EARLIER_SECONDS)
    if records:
        return Decision(document)
    if document.get("transition") != OPENED:
        return _end(document, earlier)
    if notice.incident in facts.acknowledged:
        return Decision(give_up=ACKNOWLEDGED)
    incident = document["incident"]
    state = facts.states.get(incident["id"])
    silence = covering(facts.silences, incident)
    if (silence or notice.silenced) and state not in (OPEN, None):
        return Decision(give_up=SILENCED)
    if silence:
        remaining_s = max(silence.until - facts.now, 0.0)
        return Decision(wait=min(remaining_s, SILENCED_SECONDS) + 0.1, silenced=True)
    return _beginning(notice, state)


def _end(document: dict[str, Any], earlier: Sequence[Related]) -> Decision:
    """Return the decision about an end: it goes to receivers that may have got the beginning."""
    beginnings = [entry for entry in earlier if entry.transition == OPENED]
    last = max(beginnings, key=lambda entry: entry.at, default=None)
    if last is not None and last.why in _NEVER_SENT and last.tries <= 1:
        return Decision(give_up=last.why)
    if last is not None and last.storm:
        return Decision(storm=last.storm)
    return Decision(document)


def _beginning(notice: Claimed, state: str | None) -> Decision:
    document = notice.document
    if notice.age_seconds <= LATE_SECONDS:
        return Decision(document)
    if state is None:  # its outcome is unknown
        return Decision({**document, "late_seconds": notice.age_seconds})
    if state != OPEN:
        return Decision(give_up=OVER)
    since = {"late_seconds": notice.age_seconds, "open_since": document["incident"]["opened_at"]}
    return Decision({**document, **since})
