"""Many incidents at once are one message, and one more when all of them are over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwatch.collector.runtime.notifier import STORM_AT, STORM_SECONDS, Notifier
from stepwatch.collector.runtime.paging.receivers import Alertmanager, PagerDuty
from stepwatch.collector.store import Store
from stepwatch.collector.store.incidents.outbox import KEPT_SECONDS, Outbox
from tests.collector.store.paging.happenings import ONCALL, Time, becomes, hang
from tests.collector.store.paging.pager import Pager, Step, listening

MANY = [hang(number) for number in range(60)]


@pytest.fixture
def pager() -> Iterator[Pager]:
    with listening() as receiver:
        yield receiver


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def notifier(opened: Store, clock: Time, pager: Pager) -> Notifier:
    receiver = PagerDuty(ONCALL, lambda: pager.url, key=lambda: "k")
    return Notifier(Outbox(opened.engine, clock), receiver)


def advance(notifier: Notifier, clock: Time, seconds: int) -> None:
    for _ in range(seconds):
        clock.seconds += 1.0
        notifier.advance()


def test_a_storm_is_one_message_and_one_end(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    becomes(opened, clock, "open", *MANY)
    advance(notifier, clock, 3)
    (page,) = pager.taken
    assert page["event_action"] == "trigger"
    words = page["payload"]["summary"]
    assert words.startswith("storm: 60 incidents in 3 jobs (hang): job-0: hang 000000000000; ")
    assert words.endswith("; and 50 more")
    becomes(opened, clock, "resolved", *MANY[:-1])
    advance(notifier, clock, 3)
    assert len(pager.taken) == 1, "one is still open"
    becomes(opened, clock, "resolved", MANY[-1])
    advance(notifier, clock, 3)
    assert [event["event_action"] for event in pager.taken] == ["trigger", "resolve"]
    assert pager.taken[0]["dedup_key"] == pager.taken[1]["dedup_key"]


def test_its_end_is_sent_days_later(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    becomes(opened, clock, "open", *MANY)
    advance(notifier, clock, 3)
    for _ in range(3):
        clock.seconds += KEPT_SECONDS + 1.0
        Outbox(opened.engine, clock).prune()
    becomes(opened, clock, "resolved", *MANY)
    advance(notifier, clock, 3)
    assert [event["event_action"] for event in pager.taken] == ["trigger", "resolve"]


def test_a_few_are_sent_each(opened: Store, notifier: Notifier, clock: Time, pager: Pager) -> None:
    becomes(opened, clock, "open", *MANY[:STORM_AT])
    advance(notifier, clock, 1)
    assert len({event["dedup_key"] for event in pager.taken}) == STORM_AT


def test_what_opens_after_a_storm_waits_for_the_end_of_its_minute(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    becomes(opened, clock, "open", *MANY[:50])
    advance(notifier, clock, 2)
    becomes(opened, clock, "open", *MANY[50:])
    advance(notifier, clock, int(STORM_SECONDS) - 5)
    assert len(pager.taken) == 1
    advance(notifier, clock, 20)
    assert len(pager.taken) == 1 + len(MANY[50:]), "ten are few: each has its page"
    assert all("storm" not in event["payload"]["summary"] for event in pager.taken[1:])


def test_a_storm_that_is_not_taken_is_tried_again(
    opened: Store, notifier: Notifier, clock: Time, pager: Pager
) -> None:
    pager.script = [Step(500), Step(500)]
    becomes(opened, clock, "open", *MANY)
    advance(notifier, clock, 2)
    becomes(opened, clock, "resolved", *MANY)
    advance(notifier, clock, 30)
    assert [event["event_action"] for event in pager.taken] == ["trigger", "resolve"]


def test_alertmanager_groups_by_itself(opened: Store, clock: Time) -> None:
    with listening(Step(200)) as pager:
        receiver = Alertmanager(ONCALL, lambda: pager.url)
        becomes(opened, clock, "open", *MANY)
        advance(Notifier(Outbox(opened.engine, clock), receiver), clock, 4)
        sent = {alert["labels"]["incident"] for (alert,) in pager.taken}
        assert len(sent) == len(pager.taken) == len(MANY)
