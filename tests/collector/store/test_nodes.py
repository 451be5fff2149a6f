"""Facts of nodes in the store: joined in any order, by any replica, and bounded."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from stepwatch.collector.ingest.receive import ACCEPTED, REJECTED, Ingest
from stepwatch.collector.store import Store
from stepwatch.collector.store.nodes import (
    NodeRow,
    Report,
    Sighted,
    newest_sightings,
    node_rows,
    report_of,
    sightings_of,
    tables,
    writing,
)
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact
from stepwatch.signals.wire import Segment
from tests.collector.made import EPOCH, JOB, HandClock, body
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, report

DAY = 86_400.0


def ns(at: float) -> int:
    """Wall time of a moment after `EPOCH`."""
    return round((EPOCH + at) * NANOSECONDS)


def reports(*segments: Segment) -> list[Report]:
    """What segments say of their nodes, received when they were made."""
    found = [report_of(each, each.clock.wall_ns) for each in segments]
    return [each for each in found if each is not None]


HISTORY = [
    report(10, {**XID_79, "began": 5.0}),
    report(40, {**XID_79, "began": 5.0, "count": 9, "text": "Xid 79: again"}),
    report(41, {**XID_79, "began": 5.0, "count": 9}, job=JOB),
    report(70, {**XID_79, "began": 5.0, "present": 0}),
    report(80, {**DISK_SLOW, "began": 76.0}, spool=8),
    report(80, {**DISK_SLOW, "began": 76.0}, node="node-1"),
    report(110, spool=8, sequence=2),
]


def held(store: Store) -> tuple[list[NodeRow], list[Sighted]]:
    """All that a store knows of nodes."""
    return node_rows(store.engine), sorted(newest_sightings(store.engine, 0, 1000))


def test_reports_are_joined(opened: Store) -> None:
    assert opened.nodes.add(reports(*HISTORY)) == [""] * len(HISTORY)
    rows, sighted = held(opened)
    assert rows == [
        NodeRow("node-0", ns(110), ns(110), "0.1.0"),
        NodeRow("node-1", ns(80), ns(80), "0.1.0"),
    ]
    xid = next(each for each in sighted if each.fact == NodeFact.XID)
    assert (xid.began_ns, xid.seen_ns, xid.ended_ns) == (ns(5), ns(41), ns(70))
    assert (xid.times, xid.text, xid.job, xid.attempt) == (9, "Xid 79: off the bus", JOB, 0)
    assert [each.node for each in sighted] == ["node-0", "node-0", "node-1"]
    assert [each.fact for each in sightings_of(opened.engine, "node-0")] == [
        NodeFact.DISK_SLOW,
        NodeFact.XID,
    ]


def test_order_repetition_and_batches_change_nothing(opened: Store) -> None:
    opened.nodes.add(reports(*HISTORY))
    expected = held(opened)
    chance = random.Random(5)
    for _ in range(20):
        again = [*HISTORY, *chance.choices(HISTORY, k=4)]
        chance.shuffle(again)
        with opened.engine.begin() as connection:
            for table in (tables.node, tables.node_fact):
                connection.execute(table.delete())
        while again:
            few = [again.pop() for _ in range(min(chance.randint(1, 4), len(again)))]
            opened.nodes.add(reports(*few))
        assert held(opened) == expected


def test_replicas_that_write_at_once_leave_what_one_does(url: str) -> None:
    one = Store(url)
    one.nodes.add(reports(*HISTORY))
    expected = held(one)
    others = [Store(url) for _ in range(3)]

    def write(store: Store, seed: int) -> None:
        mine = [*HISTORY]
        random.Random(seed).shuffle(mine)
        for each in mine:
            store.nodes.add(reports(each))

    threads = [threading.Thread(target=write, args=(s, n)) for n, s in enumerate(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(one) == expected
    for store in (one, *others):
        store.close()


def test_what_a_node_has_is_bounded(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_FACTS", 3)
    for at in range(10, 70, 10):
        opened.nodes.add(reports(report(at, {**DISK_SLOW, "began": at})))
    opened.nodes.add(reports(report(500, {**DISK_SLOW, "began": 5}, node="node-1")))
    kept = [each.began_ns for each in sightings_of(opened.engine, "node-0")]
    assert kept == [ns(60), ns(50), ns(40)]
    assert len(sightings_of(opened.engine, "node-1")) == 1


def test_made_up_nodes_are_refused(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_NODES", 2)
    ingest = Ingest(opened, HandClock(60.0), lambda *_: None)

    def verdicts(*segments: Segment) -> list[tuple[str, str]]:
        found = ingest.receive(body(segments))
        return [(each.verdict, each.reason) for each in found]

    nodes = [report(10, DISK_SLOW, node=f"node-{number}") for number in range(3)]
    full = (REJECTED, "2 nodes are known; names of nodes must not change")
    assert verdicts(*nodes) == [(ACCEPTED, ""), (ACCEPTED, ""), full]
    assert verdicts(nodes[0], report(20, node="node-9"), nodes[1])[::2] == [(ACCEPTED, "")] * 2
    assert [row.node for row in node_rows(opened.engine)] == ["node-0", "node-1"]
    # What a job sends is taken whatever becomes of its facts.
    of_job = report(30, DISK_SLOW, node="node-8", job=JOB)
    assert verdicts(of_job, of_job) == [(ACCEPTED, ""), ("duplicate", "")]
    assert opened.position(JOB) == 1 and not sightings_of(opened.engine, "node-8")


def test_a_report_of_a_node_is_in_no_job(opened: Store) -> None:
    ingest = Ingest(opened, HandClock(60.0), lambda *_: pytest.fail("it is no job's"))
    assert [each.verdict for each in ingest.receive(body(HISTORY[:2]))] == [ACCEPTED] * 2
    assert opened.jobs() == []
    (row,) = node_rows(opened.engine)
    assert row.received_ns == ns(60.0), "by the collector's clock"


@pytest.mark.parametrize(
    "fact",
    [
        {**XID_79, "fact": 9999},
        {**XID_79, "present": -1},
        {**XID_79, "present": 2},
    ],
)
def test_rows_that_cannot_be_are_left_out(opened: Store, fact: dict[str, Any]) -> None:
    (made,) = reports(report(10, fact))
    assert made.sighted == []


def test_a_clock_that_is_wrong_is_kept_within_what_a_column_holds(opened: Store) -> None:
    strange = report(10, {**XID_79, "text": "a\0b"})
    for wall in (0, (1 << 63) - 1):
        opened.nodes.add(reports(strange._replace(clock=strange.clock._replace(wall_ns=wall))))
    (found,) = sightings_of(opened.engine, "node-0")
    assert found.began_ns == 0 and found.seen_ns == (1 << 63) - 1
    assert found.text == "a\ufffdb"


def test_a_clock_that_was_wrong_once_is_not_believed_for_ever(opened: Store) -> None:
    for at, ahead in ((10, 365 * DAY), (40, 0.0)):
        early = report(at)
        wrong = early._replace(clock=early.clock._replace(wall_ns=ns(at + ahead)))
        (made,) = reports(wrong)
        opened.nodes.add([made._replace(received_ns=ns(at))])
    assert node_rows(opened.engine) == [NodeRow("node-0", ns(40), ns(40), "0.1.0")]


def test_what_is_old_goes(opened: Store) -> None:
    opened.nodes.add(reports(*HISTORY, report(90 * DAY, DISK_SLOW, node="node-2")))
    after = writing.KEEP_DAYS * DAY + 1000.0
    assert opened.nodes.prune(ns(after)) == 3
    assert [row.node for row in node_rows(opened.engine)] == ["node-2"]
    assert len(sightings_of(opened.engine, "node-2")) == 1
