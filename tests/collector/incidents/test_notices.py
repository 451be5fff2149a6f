"""A notice is made when an incident opens, changes its cause, and is over; not in between."""

from __future__ import annotations

from dataclasses import replace

from stepwatch.collector.incidents.model import INFO, MERGED, RESOLVED, Incident, incident_from
from stepwatch.collector.incidents.notices import notices_of

OPEN = replace(incident_from({"id": "one", "job": "job"}), state="open", cause="cpu-steal")


def transitions(*moved: tuple[Incident | None, Incident]) -> list[str]:
    previous = {incident.id: incident for incident, _ in moved if incident is not None}
    notices = notices_of(previous, [incident for _, incident in moved], 12.5)
    return [notice.document["transition"] for notice in notices]


def test_each_transition_is_noticed_once() -> None:
    resolved = replace(OPEN, state=RESOLVED)
    assert transitions((None, OPEN)) == ["opened"]
    assert transitions((OPEN, replace(OPEN, last_seen_at=9.0))) == []
    assert transitions((OPEN, replace(OPEN, cause="nic-errors"))) == ["changed-cause"]
    assert transitions((OPEN, resolved)) == transitions((OPEN, replace(OPEN, state=MERGED)))
    assert transitions((OPEN, resolved)) == ["resolved"]
    assert transitions((resolved, replace(resolved, device_seconds_lost=2.0))) == []
    assert transitions((resolved, OPEN)) == ["opened"], "it came back"
    assert transitions((None, resolved)) == [], "over before anybody knew"


def test_a_pager_gets_the_beginning_and_the_end_of_what_raises_an_alert() -> None:
    info = replace(OPEN, severity=INFO)
    changed, over = replace(OPEN, cause="nic-errors"), replace(OPEN, state=RESOLVED)
    for previous, current, expected in (
        (None, OPEN, "opened"),
        (None, info, None),
        (info, OPEN, "opened"),
        (OPEN, changed, None),
        (OPEN, over, "resolved"),
        (info, replace(info, state=RESOLVED), None),
        (over, OPEN, "opened"),
    ):
        known_incidents = {} if previous is None else {previous.id: previous}
        notices = notices_of(known_incidents, [current], 12.5, ("oncall",))
        assert [notice.transition for notice in notices] == [expected] * (expected is not None)
        assert all(notice.receiver == "oncall" and notice.incident == "one" for notice in notices)
    two_notices = notices_of({}, [OPEN], 12.5, ("", "oncall"))
    assert [notice.key for notice in two_notices] == [
        "one:opened:12.500",
        "one:opened:12.500:oncall",
    ]
    assert notices_of({}, [OPEN], 12.5, ()) == []


def test_a_notice_holds_the_incident_and_a_key_of_its_own() -> None:
    (first,) = notices_of({}, [OPEN], 12.5)
    (second,) = notices_of({}, [OPEN], 13.0)
    assert first.key == "one:opened:12.500" != second.key
    assert first.job == "job" and first.document["incident"] == OPEN.document()
    assert (first.document["key"], first.document["at"]) == (first.key, 12.5)
