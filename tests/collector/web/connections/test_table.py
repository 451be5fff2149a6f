"""Which connection is closed for a new one, and how often the log says what clients cause."""

from __future__ import annotations

import logging

import pytest

from stepwatch.collector.web.connections.room import connections_allowed
from stepwatch.collector.web.connections.seldom import EVERY_SECONDS, Seldom
from stepwatch.collector.web.connections.table import Connection, Stage, Table, peer_of


class Crowd:
    """Connections by name, as `peer/number`, and those that were closed."""

    def __init__(self, most: int) -> None:
        self.table = Table(most)
        self.closed: list[str] = []
        self.connections: dict[str, Connection] = {}

    def add(self, name: str, stage: Stage = Stage.HEAD) -> None:
        connection = Connection(name.partition("/")[0], lambda: self.closed.append(name))
        self.connections[name] = connection
        self.table.add(connection, 10.0)
        self.table.move(connection, stage, 10.0)


def test_the_peer_with_the_most_loses_its_oldest_idle_one() -> None:
    crowd = Crowd(8)
    for name in ("a/1", "b/1", "b/2", "b/3", "c/1", "b/4"):
        crowd.add(name)
    crowd.table.move(crowd.connections["b/1"], Stage.ANSWER, 10.0)
    for _ in range(3):
        crowd.table.make_room()
    assert crowd.closed == ["b/2", "b/3", "b/4"] and len(crowd.table) == 3
    crowd.table.make_room()
    assert crowd.closed[3:] in (["a/1"], ["c/1"])


def test_an_idle_one_goes_before_one_that_sends_and_none_that_is_answered() -> None:
    crowd = Crowd(4)
    crowd.add("a/1", Stage.ANSWER)
    crowd.add("a/2", Stage.BODY)
    crowd.add("a/3", Stage.HEAD)
    crowd.add("a/4", Stage.DISCARD)
    assert crowd.table.full
    while crowd.table.make_room() is not None:
        pass
    assert crowd.closed == ["a/4", "a/3", "a/2"] and len(crowd.table) == 1


def test_open_and_closed_ones_are_exported() -> None:
    crowd = Crowd(4)
    for name in ("a/1", "a/2", "b/1"):
        crowd.add(name)
    crowd.table.make_room()
    crowd.table.remove(crowd.connections["b/1"])  # its client closed it
    samples = {
        sample.name: sample.value for family in crowd.table.collect() for sample in family.samples
    }
    assert samples == {
        "stepwatch_collector_connections": 1.0,
        "stepwatch_collector_connections_closed_total": 1.0,
    }


def test_one_that_was_used_again_is_not_the_oldest() -> None:
    crowd = Crowd(4)
    crowd.add("a/1")
    crowd.add("a/2")
    crowd.table.move(crowd.connections["a/1"], Stage.ANSWER, 10.0)
    crowd.table.move(crowd.connections["a/1"], Stage.HEAD, 20.0)
    assert crowd.table.overdue(10.0) == [crowd.connections["a/2"]]
    crowd.table.make_room()
    assert crowd.closed == ["a/2"]
    crowd.table.remove(crowd.connections["a/2"])
    crowd.table.remove(crowd.connections["a/1"])
    assert len(crowd.table) == 0 and crowd.table.make_room() is None


@pytest.mark.parametrize(
    ("address", "other_address", "is_same"),
    [
        (("10.0.0.1", 1), ("10.0.0.1", 2), True),
        (("10.0.0.1", 1), ("10.0.0.2", 1), False),
        (("::ffff:10.0.0.1", 1, 0, 0), ("10.0.0.1", 2), True),
        (("2001:db8::1", 1, 0, 0), ("2001:db8::ffff:1", 1, 0, 0), True),
        (("2001:db8::1", 1, 0, 0), ("2001:db8:1::1", 1, 0, 0), False),
        (("fe80::1%eth0", 1, 0, 2), ("fe80::2%eth0", 1, 0, 2), True),
    ],
)
def test_addresses_of_one_host_are_one_peer(
    address: tuple[object, ...], other_address: tuple[object, ...], is_same: bool
) -> None:
    assert (peer_of(address) == peer_of(other_address)) == is_same


def test_a_message_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    logger = logging.getLogger("tests.seldom")
    seldom = Seldom(lambda: now[0])
    logger.addFilter(seldom)
    try:
        for number in range(1000):
            logger.warning("a request of %d is invalid", number)
        logger.warning("another message")
        now[0] += EVERY_SECONDS
        logger.warning("a request of %d is invalid", 1000)
        for _ in range(2):
            logger.error("errors always pass")
    finally:
        logger.removeFilter(seldom)
    assert [record.getMessage() for record in caplog.records] == [
        "a request of 0 is invalid",
        "another message",
        "a request of 1000 is invalid (and 999 times before)",
        "errors always pass",
        "errors always pass",
    ]


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "is_warned"),
    [
        (1024, 1024, 832, True),
        (1024, 524288, 4096, False),
        (1024, -1, 4096, False),
        (-1, -1, 4096, False),
        (64, 64, 16, True),
    ],
)
def test_descriptors_are_raised_or_the_shortfall_is_said(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    soft: int,
    hard: int,
    allowed: int,
    is_warned: bool,
) -> None:
    place = "stepwatch.collector.web.connections.room.resource"
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(f"{place}.getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(f"{place}.setrlimit", lambda _, limits: raised.append(limits))
    assert connections_allowed(tls=False) == allowed
    assert all(limits[1] == hard and limits[0] > soft for limits in raised)
    assert len(caplog.records) == is_warned
