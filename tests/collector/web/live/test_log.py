"""Positions in the log of events: what a cursor brings, and when it brings a resync."""

from __future__ import annotations

from stepwatch.collector.web.live.log import (
    FROM_START,
    MOST_GONE,
    MOST_PULSES,
    Change,
    EventLog,
    News,
)
from stepwatch.collector.web.live.topics import Topics

FLEET, ONE = Topics(fleet=True), Topics(jobs=frozenset({"a"}))


def news(*changes: Change, gone: tuple[str, ...] = (), followed: str = "", **pulses: bytes) -> News:
    return News([*changes], pulses, [*gone], frozenset(followed))


def change(job: str, **fields: bytes) -> Change:
    return Change(job, fields, b"1.0")


def test_a_field_comes_once_however_often_it_changed() -> None:
    log = EventLog()
    log.add(news(change("a", step=b"1", state=b'"running"')))
    start = log.position
    for step in (b"2", b"3"):
        assert log.add(news(change("a", step=step)))
    assert log.since(FLEET, FROM_START).count(b"event: ") == 1
    event = log.since(FLEET, start)
    assert event == (
        f"id: {log.cursor}\nevent: job\n".encode()
        + b'data: {"job": "a", "as_of": 1.0, "step": 3}\n\n'
    )
    assert log.since(FLEET, log.position) == b""
    assert not log.add(news())


def test_only_the_last_event_has_an_id() -> None:
    log = EventLog()
    log.add(news(change("a", step=b"1"), change("b", step=b"1")))
    text = log.since(FLEET, FROM_START)
    assert text.count(b"event: job") == 2 and text.count(b"id: ") == 1
    assert text.index(b"id: ") > text.index(b"data: ")


def test_live_documents_are_kept_for_a_while() -> None:
    log = EventLog()
    log.add(news(change("a", step=b"0"), followed="a"))
    start = log.position
    for number in range(MOST_PULSES):
        log.add(news(followed="a", a=str(number).encode()))
    assert log.since(ONE, start).count(b"event: live") == MOST_PULSES
    assert b"resync" not in log.since(ONE, start)
    log.add(news(followed="a", a=b"more"))
    assert b'event: resync\ndata: {"topics": ["job:a"]}' in log.since(ONE, start)
    assert b"resync" not in log.since(FLEET, start)
    assert b"live" not in log.since(ONE, FROM_START), "a new client asks for what came before"


def test_a_job_that_was_not_followed_meanwhile_is_read_again() -> None:
    log = EventLog()
    log.add(news(change("a", step=b"0"), followed="a"))
    start = log.position
    log.add(news(change("b", step=b"0")))
    log.add(news(change("b", step=b"1"), followed="a"))
    assert b"resync" in log.since(ONE, start)
    assert b"resync" not in log.since(ONE, log.position)


def test_a_forgotten_job_is_gone_for_its_readers() -> None:
    log = EventLog()
    log.add(news(change("a", step=b"0"), change("b", step=b"0")))
    start = log.position
    log.add(news(gone=("b",)))
    assert b'event: gone\ndata: {"job": "b"}' in log.since(FLEET, start)
    assert log.since(ONE, start) == b""
    log.add(news(change("b", step=b"5")))
    assert b"gone" not in log.since(FLEET, start)


def test_cursors_of_other_logs_and_old_ones_are_unknown() -> None:
    log = EventLog()
    log.add(news(change("a", step=b"0")))
    cursor = log.cursor
    assert log.position_of(cursor) == 1
    assert EventLog().position_of(cursor) is None
    for text in ("", "-1", cursor + "9" * 30, cursor.replace("-1", "-2"), "x", f"{cursor}\u0661"):
        assert log.position_of(text) is None
    log.add(news(gone=tuple(f"job-{number}" for number in range(MOST_GONE + 1))))
    assert log.position_of(cursor) is None
