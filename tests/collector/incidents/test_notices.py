"""A notice is made when an incident that raises an alert begins, and when it is over."""

from __future__ import annotations

from dataclasses import replace

from stepwatch.collector.incidents.model import Incident, incident_from
from stepwatch.collector.incidents.notices import notices_of
from stepwatch.collector.incidents.states import INFO, MERGED, RESOLVED

OPEN = replace(incident_from({"id": "one", "job": "job"}), state="open", cause="cpu-steal")
ONCALL = ("oncall",)


def transitions(*moved: tuple[Incident | None, Incident]) -> list[str]:
    previous = {incident.id: incident for incident, _ in moved if incident is not None}
    notices = notices_of(previous, [incident for _, incident in moved], 12.5, ONCALL)
    return [notice.document["transition"] for notice in notices]


def test_each_transition_is_noticed_once() -> None:
    info, resolved = replace(OPEN, severity=INFO), replace(OPEN, state=RESOLVED)
    assert transitions((None, OPEN)) == ["opened"]
    assert transitions((OPEN, replace(OPEN, last_seen_at=9.0))) == []
    assert transitions((OPEN, replace(OPEN, cause="nic-errors"))) == []
    assert transitions((OPEN, resolved)) == transitions((OPEN, replace(OPEN, state=MERGED)))
    assert transitions((OPEN, resolved)) == ["resolved"]
    assert transitions((resolved, replace(resolved, device_seconds_lost=2.0))) == []
    assert transitions((resolved, OPEN)) == ["opened"], "it came back"
    assert transitions((None, resolved)) == [], "over before its first notice"
    assert transitions((None, info)) == transitions((info, replace(info, state=RESOLVED))) == []
    assert transitions((info, OPEN)) == ["opened"]


def test_each_receiver_gets_a_notice_with_its_own_key() -> None:
    two_notices = notices_of({}, [OPEN], 12.5, ("oncall", "channel"))
    assert [notice.key for notice in two_notices] == [
        "one:opened:12.500:oncall",
        "one:opened:12.500:channel",
    ]
    assert [notice.receiver for notice in two_notices] == ["oncall", "channel"]
    assert notices_of({}, [OPEN], 12.5, ()) == []


def test_a_notice_holds_the_incident_and_a_key_of_its_own() -> None:
    (first,) = notices_of({}, [OPEN], 12.5, ONCALL)
    (second,) = notices_of({}, [OPEN], 13.0, ONCALL)
    assert first.key == "one:opened:12.500:oncall" != second.key
    assert first.job == "job" and first.incident == "one"
    assert first.document["incident"] == OPEN.document()
    assert (first.document["key"], first.document["at"]) == (first.key, 12.5)
