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


def ns(offset_s: float) -> int:
    """Wall time of a moment after `EPOCH`."""
    return round((EPOCH + offset_s) * NANOSECONDS)


def reports(*segments: Segment) -> list[Report]:
    """What segments say of their nodes, received when they were made."""
    node_reports = [report_of(segment, segment.clock.wall_ns) for segment in segments]
    return [node_report for node_report in node_reports if node_report is not None]


HISTORY = [
    report(10, {**XID_79, "began": 5.0}),
    report(40, {**XID_79, "began": 5.0, "count": 9, "text": "Xid 79: again"}),
    report(41, {**XID_79, "began": 5.0, "count": 9}, job=JOB),
    report(70, {**XID_79, "began": 5.0, "present": 0}),
    report(80, {**DISK_SLOW, "began": 76.0}, spool=8),
    report(80, {**DISK_SLOW, "began": 76.0}, node="node-1"),
    report(110, spool=8, sequence=2),
]


def stored_nodes(store: Store) -> tuple[list[NodeRow], list[Sighted]]:
    """All that a store knows of nodes."""
    return node_rows(store.engine), sorted(newest_sightings(store.engine, 0, 1000))


def test_reports_are_joined(opened: Store) -> None:
    assert opened.nodes.add(reports(*HISTORY)) == [""] * len(HISTORY)
    rows, sighted = stored_nodes(opened)
    assert rows == [
        NodeRow("node-0", ns(110), ns(110), "0.1.0"),
        NodeRow("node-1", ns(80), ns(80), "0.1.0"),
    ]
    xid = next(sighting for sighting in sighted if sighting.fact == NodeFact.XID)
    assert (xid.began_ns, xid.seen_ns, xid.ended_ns) == (ns(5), ns(41), ns(70))
    assert (xid.times, xid.text, xid.job, xid.attempt) == (9, "Xid 79: off the bus", JOB, 0)
    assert [sighting.node for sighting in sighted] == ["node-0", "node-0", "node-1"]
    assert [sighting.fact for sighting in sightings_of(opened.engine, "node-0")] == [
        NodeFact.DISK_SLOW,
        NodeFact.XID,
    ]


def test_order_repetition_and_batches_change_nothing(opened: Store) -> None:
    opened.nodes.add(reports(*HISTORY))
    expected = stored_nodes(opened)
    chance = random.Random(5)
    for _ in range(20):
        repeated = [*HISTORY, *chance.choices(HISTORY, k=4)]
        chance.shuffle(repeated)
        with opened.engine.begin() as connection:
            for table in (tables.node, tables.node_fact):
                connection.execute(table.delete())
        while repeated:
            few = [repeated.pop() for _ in range(min(chance.randint(1, 4), len(repeated)))]
            opened.nodes.add(reports(*few))
        assert stored_nodes(opened) == expected


def test_replicas_that_write_at_once_leave_what_one_does(url: str) -> None:
    single_store = Store(url)
    single_store.nodes.add(reports(*HISTORY))
    expected = stored_nodes(single_store)
    stores = [Store(url) for _ in range(3)]

    def write(store: Store, seed: int) -> None:
        own_history = [*HISTORY]
        random.Random(seed).shuffle(own_history)
        for segment in own_history:
            store.nodes.add(reports(segment))

    threads = [threading.Thread(target=write, args=(s, n)) for n, s in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored_nodes(single_store) == expected
    for store in (single_store, *stores):
        store.close()


def test_what_a_node_has_is_bounded(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_FACTS", 3)
    for second in range(10, 70, 10):
        opened.nodes.add(reports(report(second, {**DISK_SLOW, "began": second})))
    opened.nodes.add(reports(report(500, {**DISK_SLOW, "began": 5}, node="node-1")))
    began_times = [sighting.began_ns for sighting in sightings_of(opened.engine, "node-0")]
    assert began_times == [ns(60), ns(50), ns(40)]
    assert len(sightings_of(opened.engine, "node-1")) == 1


def test_made_up_nodes_are_refused(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_NODES", 2)
    ingest = Ingest(opened, HandClock(60.0), lambda *_: None)

    def verdicts(*segments: Segment) -> list[tuple[str, str]]:
        answers = ingest.receive(body(segments))
        return [(verdict.verdict, verdict.reason) for verdict in answers]

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
    ingest = Ingest(opened, HandClock(60.0), lambda *_: pytest.fail("it is not a job's"))
    assert [verdict.verdict for verdict in ingest.receive(body(HISTORY[:2]))] == [ACCEPTED] * 2
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
    (node_report,) = reports(report(10, fact))
    assert node_report.sighted == []


def test_a_clock_that_is_wrong_is_kept_within_what_a_column_holds(opened: Store) -> None:
    strange = report(10, {**XID_79, "text": "a\0b"})
    for wall in (0, (1 << 63) - 1):
        opened.nodes.add(reports(strange._replace(clock=strange.clock._replace(wall_ns=wall))))
    (sighting,) = sightings_of(opened.engine, "node-0")
    assert sighting.began_ns == 0 and sighting.seen_ns == (1 << 63) - 1
    assert sighting.text == "a\ufffdb"


def test_a_clock_that_was_wrong_once_is_not_believed_for_ever(opened: Store) -> None:
    for second, ahead in ((10, 365 * DAY), (40, 0.0)):
        segment = report(second)
        wrong = segment._replace(clock=segment.clock._replace(wall_ns=ns(second + ahead)))
        (node_report,) = reports(wrong)
        opened.nodes.add([node_report._replace(received_ns=ns(second))])
    assert node_rows(opened.engine) == [NodeRow("node-0", ns(40), ns(40), "0.1.0")]


def test_what_is_old_goes(opened: Store) -> None:
    opened.nodes.add(reports(*HISTORY, report(90 * DAY, DISK_SLOW, node="node-2")))
    later_s = writing.KEEP_DAYS * DAY + 1000.0
    assert opened.nodes.prune(ns(later_s)) == 3
    assert [row.node for row in node_rows(opened.engine)] == ["node-2"]
    assert len(sightings_of(opened.engine, "node-2")) == 1
