"""What an evaluation has to tell is sent until it is taken, by one collector at a time."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from stepwatch.collector.runtime.notifier import KEY_HEADER, Notifier
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store, outbox
from stepwatch.collector.store.leases import Lease, Leases
from stepwatch.collector.store.outbox import Notice, Outbox
from stepwatch.signals import names
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import LeaseLostError
from tests.collector.exported import metric
from tests.collector.made import HandClock, body, run_segments

RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)
URL = "http://receiver.test/hook"


class Receiver:
    """Answers with the next status; 0 is no answer."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = [*statuses]
        self.keys: list[str] = []

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        assert url == URL and headers[KEY_HEADER] in body.decode()
        self.keys.append(headers[KEY_HEADER])
        status = self.statuses.pop(0) if self.statuses else 204
        if not status:
            raise httpx.ConnectError("nobody listens")
        return status


class Time:
    """The database's clock, which the test turns."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self, _: object) -> int:
        return int(self.seconds * NANOSECONDS)


def write(store: Store, key: str, at: float = 1.0) -> None:
    document = {"key": key, "at": at}
    with store.engine.begin() as connection:
        outbox.add_notices(connection, [Notice(key, "job", document)], lambda _: 0)


def test_what_happens_to_incidents_is_sent_once(opened: Store) -> None:
    receiver = Receiver()
    notifier = Notifier(opened.outbox, URL, receiver)
    clock = HandClock(60.0)
    service = Service(opened, clock, notifier=notifier)
    for item in RUN:
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    for _ in range(3):
        notifier.advance()
    (incident,) = opened.incidents()
    (key,) = receiver.keys
    assert key.startswith(f"{incident['id']}:opened:")
    assert opened.outbox.counts() == {"pending": 0, "delivered": 1, "failed": 0}
    assert metric(service, names.COLLECTOR_NOTICES) == 0.0, "pending"


def test_without_a_receiver_nothing_is_written(opened: Store) -> None:
    service = Service(opened, HandClock(60.0))
    service.receive(body(RUN))
    service.evaluate()
    assert len(opened.incidents()) == 1 and sum(opened.outbox.counts().values()) == 0


def test_whoever_lost_its_lease_tells_nobody(opened: Store) -> None:
    leases = [Leases(opened.engine, name) for name in ("old", "new")]
    leases[0].claim(["job"])
    leases[0].leave()
    leases[1].claim(["job"])
    notice = Notice("key", "job", {"key": "key", "at": 1.0})
    incident = {"id": "x", "job": "job", "kind": "hang", "state": "open", "opened_at": 1.0}
    with pytest.raises(LeaseLostError):
        opened.save_evaluation("job", [], [incident], Lease("job", "old", 1), [notice])
    assert sum(opened.outbox.counts().values()) == 0
    for _ in range(2):
        opened.save_evaluation("job", [], [incident], Lease("job", "new", 2), [notice])
    assert opened.outbox.counts()["pending"] == 1, "once by its key"


def test_a_receiver_that_does_not_answer_is_tried_again_ever_later(
    opened: Store, caplog: pytest.LogCaptureFixture
) -> None:
    time = Time()
    receiver = Receiver(0, 503, 429, 200)
    notifier = Notifier(Outbox(opened.engine, time), URL, receiver)
    write(opened, "key")
    tries = []
    for second in range(30):
        before = len(receiver.keys)
        notifier.advance()
        if len(receiver.keys) > before:
            tries.append(second)
        time.seconds += 1.0
    assert tries == [0, 2, 6, 14]
    assert notifier.counts == {"pending": 0, "delivered": 1, "failed": 0}
    assert len(caplog.messages) == 1 and "receiver.test" not in caplog.text


def test_what_is_refused_is_given_up_and_what_is_old_removed(opened: Store) -> None:
    time = Time()
    box = Outbox(opened.engine, time)
    notifier = Notifier(box, URL, Receiver(400))
    write(opened, "refused", at=1.0)
    write(opened, "taken", at=2.0)
    notifier.advance()
    assert notifier.counts == {"pending": 0, "delivered": 1, "failed": 1}
    time.seconds += outbox.KEPT_SECONDS + 1.0
    write(opened, "waits")
    box.prune()
    assert box.counts() == {"pending": 1, "delivered": 0, "failed": 0}


def test_two_collectors_share_the_work_and_take_over_what_one_left(opened: Store) -> None:
    time = Time()
    first, second = Outbox(opened.engine, time), Outbox(opened.engine, time)
    for number in range(5):
        write(opened, f"key-{number}", at=float(number))
    assert [each.key for each in first.claim(3)] == ["key-0", "key-1", "key-2"]
    assert [each.key for each in second.claim(9)] == ["key-3", "key-4"]
    assert second.claim(9) == []
    time.seconds += outbox.CLAIMED_SECONDS
    assert [each.tries for each in second.claim(9)] == [2] * 5
