"""Pages over real HTTP: whatever the pager does, one page and one resolve come of an incident."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from stepwatch.collector.runtime.notifier import Notifier
from stepwatch.collector.runtime.paging import sending
from stepwatch.collector.runtime.paging.receivers import PagerDuty
from stepwatch.collector.runtime.paging.sending import retry_after
from stepwatch.collector.store import Store
from stepwatch.collector.store.incidents.outbox import CLAIMED_SECONDS, Outbox
from stepwatch.collector.store.response import Silences, Wanted
from tests.collector.store.paging.happenings import HANG, ONCALL, Time, becomes
from tests.collector.store.paging.pager import Pager, Step, listening

KEY = "r0uting-s3cret"


@pytest.fixture
def pager() -> Iterator[Pager]:
    with listening() as receiver:
        yield receiver


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def notifier(opened: Store, clock: Time, pager: Pager) -> Notifier:
    return over(opened, clock, pager)


def over(store: Store, clock: Time, pager: Pager) -> Notifier:
    """A collector's sender to the pager."""
    url = f"{pager.url}/v2/enqueue"
    return Notifier(Outbox(store.engine, clock), PagerDuty(ONCALL, lambda: url, key=lambda: KEY))


def advance(notifier: Notifier, clock: Time, seconds: float = 0.0) -> None:
    """Let time pass, and send what is due."""
    for _ in range(int(seconds)):
        clock.seconds += 1.0
        notifier._paused_until = 0.0
        notifier.advance()
    notifier.advance()


def actions(pager: Pager) -> list[str]:
    """What the pager took: `trigger` and `resolve`."""
    assert {event["dedup_key"] for event in pager.taken} <= {f"stepwatch/{HANG.id}"}
    return [event["event_action"] for event in pager.taken]


def test_one_page_and_one_resolve(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    becomes(opened, clock, "open")
    advance(notifier, clock, 5)
    becomes(opened, clock, "open")
    advance(notifier, clock, 5)
    becomes(opened, clock, "resolved")
    advance(notifier, clock, 5)
    assert actions(pager) == ["trigger", "resolve"]
    assert notifier.sent == {"delivered": 2, "failed": 0}
    assert Outbox(opened.engine, clock).oldest_seconds() == {}


@pytest.mark.parametrize(
    "step",
    [
        Step(500),
        Step(503),
        Step(429),
        Step(408),
        Step(403),
        Step(302, headers=(("location", "http://127.0.0.1:1/"),)),
        Step(200, b"<html>log in to the hotel's network</html>"),
        Step(raw=b"HTTP/1.1 202 Acc"),
        Step(raw=b"\x00\xff garbage\r\n\r\n"),
        Step(raw=b""),
        Step(seconds=60.0),
    ],
    ids=lambda step: f"{step.status}-{step.raw}-{step.seconds:.0f}",
)
def test_a_pager_that_fails_is_tried_again(
    opened: Store,
    notifier: Notifier,
    clock: Time,
    pager: Pager,
    step: Step,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if step.seconds:  # else an answer that is only late would be one more failure
        monkeypatch.setattr(sending, "ANSWER_SECONDS", 1.5)
    pager.script = [step, step]
    becomes(opened, clock, "open")
    advance(notifier, clock)
    assert pager.taken == [] and notifier.sent["failed"] == 1
    clock.seconds += 1.0
    notifier.advance()
    assert Outbox(opened.engine, clock).oldest_seconds()[ONCALL] == pytest.approx(1.0, abs=0.01)
    becomes(opened, clock, "resolved")
    advance(notifier, clock, 30)
    assert actions(pager) == ["trigger", "resolve"], "in their order"
    assert notifier.sent == {"delivered": 2, "failed": 2}
    assert KEY not in caplog.text and pager.url not in caplog.text


def test_a_pager_that_is_down_gets_it_when_it_is_up(opened: Store, clock: Time) -> None:
    with listening() as closed_pager:
        notifier = over(opened, clock, closed_pager)
    becomes(opened, clock, "open")
    advance(notifier, clock, 60)
    assert notifier.sent["delivered"] == 0
    assert Outbox(opened.engine, clock).oldest_seconds()[ONCALL] >= 60.0
    with listening() as pager:
        advance(over(opened, clock, pager), clock, 120)
        assert actions(pager) == ["trigger"]


def test_what_is_invalid_is_given_up(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    pager.script = [Step(400)]
    becomes(opened, clock, "open")
    advance(notifier, clock, 30)
    assert pager.taken == [] and Outbox(opened.engine).given_up()["refused"] == 1


def test_a_pager_that_asks_for_patience_gets_it(opened: Store, clock: Time, pager: Pager) -> None:
    """Nothing is sent before, of other incidents neither."""
    receiver = over(opened, clock, pager).receiver
    box = Outbox(opened.engine, clock)
    notifier = Notifier(box, receiver, monotonic=lambda: clock.seconds)
    pager.script = [Step(429, headers=(("retry-after", "40"),))]
    becomes(opened, clock, "open")
    notifier.advance()
    becomes(opened, clock, "open", replace(HANG, id="other"))
    for _ in range(39):
        clock.seconds += 1.0
        notifier.advance()
    assert len(pager.seen) == 1
    clock.seconds += 2.0
    notifier.advance()
    assert [event["event_action"] for event in pager.taken] == ["trigger", "trigger"]


def test_what_the_header_may_say() -> None:
    now = datetime(2026, 11, 24, tzinfo=UTC)
    for text, seconds in (
        ("7", 7.0),
        ("999999", sending.LONGEST_WAIT_SECONDS),
        (format_datetime(now + timedelta(seconds=30), usegmt=True), 30.0),
        (format_datetime(now - timedelta(days=1), usegmt=True), 0.0),
        ("soon", 0.0),
        ("-1", 0.0),
        ("٣", 0.0),
        ("", 0.0),
        ("9" * 400, 0.0),
    ):
        assert retry_after(text, now) == seconds, text


def test_a_page_that_was_sent_but_not_noted_has_the_same_key(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    """The first collector dies after the answer; the next one cannot know of it."""
    becomes(opened, clock, "open")
    (claimed,) = Outbox(opened.engine, clock).claim(9, ONCALL)
    sending.post(notifier.receiver.outgoing(claimed.key, claimed.document))
    advance(notifier, clock, CLAIMED_SECONDS + 1)
    becomes(opened, clock, "resolved")
    advance(notifier, clock, 5)
    assert actions(pager) == ["trigger", "trigger", "resolve"]
    assert len({event["dedup_key"] for event in pager.taken}) == 1


def test_two_collectors_page_once(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    second_notifier = over(opened, clock, pager)
    becomes(opened, clock, "open")
    for _ in range(5):
        advance(notifier, clock, 1)
        advance(second_notifier, clock, 1)
    becomes(opened, clock, "resolved")
    for _ in range(5):
        advance(second_notifier, clock, 1)
        advance(notifier, clock, 1)
    assert actions(pager) == ["trigger", "resolve"]


def silence(store: Store, clock: Time, seconds: float, **about: str) -> str:
    named: dict[str, Any] = {"job": "", "node": "", "kind": ""} | about
    wanted = Wanted(**named, why="work", by="ada", seconds=seconds)
    return Silences(store.engine, clock).add(wanted).id


def test_a_silence_holds_a_page_and_what_is_over_by_then_is_not_sent(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    silence(opened, clock, 600.0, job="llama")
    becomes(opened, clock, "open")
    advance(notifier, clock, 300)
    assert pager.seen == [] and opened.incidents.newest()[0]["state"] == "open"
    becomes(opened, clock, "resolved")
    advance(notifier, clock, 600)
    assert pager.seen == []
    assert Outbox(opened.engine).given_up()["silenced"] == 2, "neither beginning nor end"


@pytest.mark.parametrize("about", [{"job": "llama"}, {"node": "gpu-01"}, {"kind": "hang"}])
def test_what_is_still_open_after_the_silence_pages(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager, about: dict[str, str]
) -> None:
    silence(opened, clock, 100.0, **about)
    becomes(opened, clock, "open")
    advance(notifier, clock, 99)
    assert pager.seen == []
    advance(notifier, clock, 20)
    assert actions(pager) == ["trigger"]


def test_an_expired_silence_holds_nothing_any_more(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    identity = silence(opened, clock, 6000.0, job="llama")
    becomes(opened, clock, "open")
    advance(notifier, clock, 30)
    Silences(opened.engine, clock).expire(identity, "bob")
    advance(notifier, clock, 16)
    assert actions(pager) == ["trigger"]


def test_a_silence_of_something_else_holds_nothing(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    silence(opened, clock, 600.0, job="llama-2")
    silence(opened, clock, 600.0, job="llama", kind="straggler")
    becomes(opened, clock, "open")
    advance(notifier, clock)
    assert actions(pager) == ["trigger"]


def test_the_end_of_what_was_paged_is_sent_under_a_silence(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    becomes(opened, clock, "open")
    advance(notifier, clock)
    silence(opened, clock, 600.0, job="llama")
    becomes(opened, clock, "resolved")
    clock.seconds += 1.0
    advance(notifier, clock)
    assert actions(pager) == ["trigger", "resolve"]


def test_an_acknowledged_incident_pages_nobody_again(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    becomes(opened, clock, "open")
    advance(notifier, clock, 1)
    opened.notes.add(HANG.id, HANG.job, "acknowledged", "ada", "")
    for state in ("resolved", "open", "resolved"):
        clock.seconds += 1.0
        becomes(opened, clock, state)
        advance(notifier, clock, 2)
    assert actions(pager) == ["trigger", "resolve"]
    opened.notes.add(HANG.id, HANG.job, "reopened", "ada", "")
    clock.seconds += 1.0
    becomes(opened, clock, "open")
    advance(notifier, clock, 2)
    assert actions(pager) == ["trigger", "resolve", "trigger"]


def test_a_secret_that_cannot_be_read_is_tried_again(
    opened: Store, clock: Time, pager: Pager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    receiver = PagerDuty(ONCALL, lambda: pager.url, key=file.read_text)
    notifier = Notifier(Outbox(opened.engine, clock), receiver)
    becomes(opened, clock, "open")
    advance(notifier, clock)
    file.write_text(KEY)
    advance(notifier, clock, 10)
    assert actions(pager) == ["trigger"] and pager.taken[0]["routing_key"] == KEY
    assert "FileNotFoundError" in caplog.text and KEY not in caplog.text + repr(receiver)


def test_nothing_of_a_secret_is_stored(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    pager.script = [Step(500)]
    becomes(opened, clock, "open")
    advance(notifier, clock)
    with opened.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM outbox").all()
    assert len(rows) == 1 and KEY not in str(rows)


logging.getLogger("httpx").setLevel(logging.WARNING)
