"""What an evaluation has to tell is sent until it is taken, by one collector at a time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from stepwatch.collector.runtime.notifier import Notifiers
from stepwatch.collector.runtime.paging import receivers, sending
from stepwatch.collector.runtime.paging.deciding import LATE_SECONDS
from stepwatch.collector.runtime.paging.receivers import KEY_HEADER, Answer, Outgoing
from stepwatch.collector.runtime.paging.sending import Post
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.incidents import outbox
from stepwatch.collector.store.incidents.outbox import Notice, Outbox
from stepwatch.collector.store.leases import Lease, Leases
from stepwatch.collector.web.api import make_api
from stepwatch.signals import names
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import LeaseLostError
from tests.collector.client import Client
from tests.collector.exported import metric
from tests.collector.made import HandClock, body, run_segments

RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)
URL = "http://receiver.test/hook"
BRIDGE = "bridge"


class Receiver:
    """Answers with the next status; 0 is not an answer."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = [*statuses]
        self.keys: list[str] = []
        self.documents: list[dict[str, Any]] = []

    def __call__(self, sent: Outgoing) -> Answer:
        assert sent.url == URL and sent.headers[KEY_HEADER] in sent.body.decode()
        self.keys.append(sent.headers[KEY_HEADER])
        self.documents.append(json.loads(sent.body))
        status = self.statuses.pop(0) if self.statuses else 204
        if not status:
            raise httpx.ConnectError("nobody listens")
        return Answer(status)


def notifying(box: Outbox, post: Post) -> Notifiers:
    """A webhook with another way to send."""
    return Notifiers(box, [receivers.Webhook(BRIDGE, lambda: URL)], post)


class Time:
    """The database's clock, which the test turns."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self, _: object) -> int:
        return int(self.seconds * NANOSECONDS)


def write(store: Store, key: str, time_s: float = 1.0) -> None:
    document = {"key": key, "at": time_s}
    with store.engine.begin() as connection:
        outbox.add_notices(connection, [Notice(key, "job", document, BRIDGE)], lambda _: 0)


def test_what_happens_to_incidents_is_sent_once(opened: Store) -> None:
    receiver = Receiver()
    notifier = notifying(opened.outbox, receiver)
    clock = HandClock(60.0)
    service = Service(opened, clock, notifier=notifier)
    for item in RUN:
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    for _ in range(3):
        notifier.advance()
    (incident,) = opened.incidents.newest()
    (key,) = receiver.keys
    assert key.startswith(f"{incident['id']}:opened:")
    assert opened.outbox.counts() == {"pending": 0, "delivered": 1, "failed": 0}
    assert metric(service, names.COLLECTOR_NOTICES) == 0.0, "pending"


def test_without_a_receiver_nothing_is_written(opened: Store) -> None:
    service = Service(opened, HandClock(60.0))
    service.receive(body(RUN))
    service.evaluate()
    assert len(opened.incidents.newest()) == 1 and sum(opened.outbox.counts().values()) == 0


def test_whoever_lost_its_lease_tells_nobody(opened: Store) -> None:
    leases = [Leases(opened.engine, name) for name in ("old", "new")]
    leases[0].claim(["job"])
    leases[0].leave()
    leases[1].claim(["job"])
    notice = Notice("key", "job", {"key": "key", "at": 1.0}, BRIDGE)
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
    clock = Time()
    receiver = Receiver(0, 503, 429, 200)
    notifier = notifying(Outbox(opened.engine, clock), receiver)
    write(opened, "key")
    tries = []
    for second in range(30):
        key_count = len(receiver.keys)
        notifier.advance()
        if len(receiver.keys) > key_count:
            tries.append(second)
        clock.seconds += 1.0
    assert tries == [0, 2, 6, 14]
    assert notifier.counts == {"pending": 0, "delivered": 1, "failed": 0}
    assert len(caplog.messages) == 1 and "receiver.test" not in caplog.text


def test_what_is_refused_is_given_up_and_what_is_old_removed(opened: Store) -> None:
    clock = Time()
    box = Outbox(opened.engine, clock)
    notifier = notifying(box, Receiver(400))
    write(opened, "refused", time_s=1.0)
    write(opened, "taken", time_s=2.0)
    notifier.advance()
    assert notifier.counts == {"pending": 0, "delivered": 1, "failed": 1}
    assert {why: count for why, count in notifier.given_up.items() if count} == {"refused": 1}
    clock.seconds += outbox.KEPT_SECONDS + 1.0
    box.prune()
    assert sum(box.counts().values()) == 0


def test_what_nobody_sends_is_given_up_after_a_day(opened: Store) -> None:
    clock = Time()
    box = Outbox(opened.engine, clock)
    with opened.engine.begin() as connection:
        outbox.add_notices(
            connection, [Notice("key", "job", {"key": "key", "at": 1.0}, BRIDGE)], clock
        )
    box.prune()
    assert box.counts()["pending"] == 1
    for unsent in (1, 0):
        clock.seconds += outbox.KEPT_SECONDS + 1.0
        box.prune()
        assert box.counts() == {"pending": 0, "delivered": 0, "failed": unsent}
        assert box.given_up()["unsent"] == unsent


def deliver_late(
    store: Store, state: str, transition: str, seconds: float
) -> tuple[Notifiers, Receiver]:
    """A notice of so long ago about an incident that is in a state by now."""
    receiver, happened = Receiver(), time.time() - seconds
    incident = {"id": "x", "job": "job", "kind": "hang", "opened_at": happened}
    document: dict[str, Any] = {"key": "key", "at": happened, "transition": transition}
    document["incident"] = {**incident, "state": "open"}
    notice = Notice("key", "job", document, BRIDGE)
    store.save_evaluation("job", [], [{**incident, "state": "open"}], None, [notice])
    store.save_evaluation("job", [], [{**incident, "state": state}])
    return notifying(store.outbox, receiver), receiver


def test_an_incident_that_is_over_is_not_told_an_hour_late(opened: Store) -> None:
    notifier, receiver = deliver_late(opened, "resolved", "opened", LATE_SECONDS + 60.0)
    for _ in range(2):
        notifier.advance()
    assert receiver.keys == [] and notifier.counts["failed"] == 1
    assert {why for why, count in notifier.given_up.items() if count} == {"over"}
    service = Service(opened, HandClock(), notifier=notifier)
    exported = Client(make_api(service)).get("/metrics").text
    assert f'{names.COLLECTOR_NOTICES_GIVEN_UP.name}{{cause="over"}} 1.0' in exported


@pytest.mark.parametrize("state, transition", [("open", "opened"), ("resolved", "resolved")])
def test_an_incident_that_is_open_is_told_late_and_since_when(
    opened: Store, state: str, transition: str
) -> None:
    notifier, receiver = deliver_late(opened, state, transition, 3 * LATE_SECONDS)
    notifier.advance()
    (reported,) = receiver.documents
    assert receiver.keys == ["key"] and reported["key"] == "key"
    if state == "open":
        assert reported["late_seconds"] >= 3 * LATE_SECONDS
        assert reported["open_since"] == reported["incident"]["opened_at"]


def test_what_is_sent_in_time_says_nothing_of_being_late(opened: Store) -> None:
    notifier, receiver = deliver_late(opened, "resolved", "opened", 60.0)
    notifier.advance()
    assert [document["key"] for document in receiver.documents] == ["key"]
    assert "late_seconds" not in receiver.documents[0]


@contextmanager
def dripping(bytes_at_most: int) -> Iterator[str]:
    """A receiver that answers byte by byte, and never comes to the end of its headers."""
    listener = socket.create_server(("127.0.0.1", 0))
    ending = threading.Event()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 204 No Content\r\nX-Slow: ")
                for _ in range(bytes_at_most):
                    if ending.wait(0.02):
                        return
                    connection.sendall(b"x")
                connection.sendall(b"\r\n\r\n")
            except OSError:
                return  # whoever asked is gone

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        ending.set()
        thread.join()
        listener.close()


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte is in time, the answer is not: it would come, and say 204, after a while."""
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 0.2)
    with dripping(100) as url, pytest.raises(TimeoutError):
        sending.post(Outgoing(url, b"{}", {}))


def test_what_got_no_answer_in_time_is_tried_again(opened: Store) -> None:
    def never(sent: Outgoing) -> Answer:
        raise TimeoutError

    notifier = notifying(opened.outbox, never)
    write(opened, "key")
    notifier.advance()
    assert notifier.counts == {"pending": 1, "delivered": 0, "failed": 0}


def test_two_collectors_share_the_work_and_take_over_what_one_left(opened: Store) -> None:
    clock = Time()
    first, second = Outbox(opened.engine, clock), Outbox(opened.engine, clock)
    for number in range(5):
        write(opened, f"key-{number}", time_s=float(number))
    assert [notice.key for notice in first.claim(3, BRIDGE)] == ["key-0", "key-1", "key-2"]
    assert [notice.key for notice in second.claim(9, BRIDGE)] == ["key-3", "key-4"]
    assert second.claim(9, BRIDGE) == []
    clock.seconds += outbox.CLAIMED_SECONDS
    assert [notice.tries for notice in second.claim(9, BRIDGE)] == [2] * 5
