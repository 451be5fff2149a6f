"""The newest report of each fact of a node, and when a fact that nobody reports is over."""

from __future__ import annotations

from typing import Any

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.nodes import node_faults
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFaults
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, NodeFact, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.made import segment, state_rows


def fact_rows(*facts: dict[str, Any]) -> Rows:
    rows = make_rows(Kind.NODE_FACT, len(facts))
    for row, fact in zip(rows, facts, strict=True):
        values = {"rank": -1, "code": -1, "count": 1, "present": 1, "subject": b"gpu", **fact}
        for name, value in values.items():
            row[name] = value
    return rows


def attempt_of(*parts: tuple[float, Rows], node: str = "node-0") -> Attempt:
    attempt = Attempt(0)
    attempt.apply(
        segment(1, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0, 1, 0.1)}), Received(1.0, 1.0)
    )
    for number, (time_s, rows) in enumerate(parts):
        attempt.apply(
            segment(2 + number, {Kind.NODE_FACT: rows}, node=node), Received(time_s, time_s)
        )
    return attempt


def present(
    attempt: Attempt, last_seen: float = 10.0, node: str = "node-0"
) -> list[tuple[Any, ...]]:
    faults = attempt.tracker(NodeFaults).faults({node: last_seen})
    return [(fault.fact, fault.subject, fault.times) for fault in faults if fault.present]


def test_the_newest_report_counts() -> None:
    xid = {"fact": NodeFact.XID, "code": 79, "rank": 2, "began_ns": NANOSECONDS, "text": b"a line"}
    attempt = attempt_of(
        (5.0, fact_rows({**xid, "time_ns": 2 * NANOSECONDS})), (6.0, fact_rows({**xid, "count": 9}))
    )
    assert present(attempt) == [(NodeFact.XID, "gpu", 9)]
    (fault,) = attempt.tracker(NodeFaults).faults({})
    assert (fault.node, fault.code, fault.rank, fault.text) == ("node-0", 79, 2, "a line")
    over = attempt_of((5.0, fact_rows(xid)), (6.0, fact_rows({**xid, "present": 0})))
    assert present(over) == []


def test_when_it_happened_last_is_known_from_its_count() -> None:
    first = {"fact": NodeFact.XID, "code": 79, "began_ns": 3, "time_ns": 50, "count": 4}
    unchanged, counted_again = {**first, "time_ns": 60}, {**first, "time_ns": 70, "count": 5}

    def newest(*rows: dict[str, Any]) -> int:
        attempt = attempt_of(
            *((5.0 + offset_s, fact_rows(row)) for offset_s, row in enumerate(rows))
        )
        return attempt.tracker(NodeFaults).faults({})[0].newest_ns

    assert newest(first) == 3, "a report is not an occurrence"
    assert newest(first, unchanged) == 3
    assert newest(first, unchanged, counted_again) == 70
    assert newest(first, counted_again, {**counted_again, "time_ns": 90}) == 70


def test_what_is_no_longer_reported_is_over_while_its_node_reports() -> None:
    attempt = attempt_of((5.0, fact_rows({"fact": NodeFact.DISK_FULL})))
    within = 5.0 + node_faults.REPORTED_WITHIN_SECONDS
    assert present(attempt, within) and not present(attempt, within + 1.0)
    assert present(attempt, 1e6, node="another"), "of a node that is not seen nothing is known"


def test_facts_differ_by_node_subject_and_code() -> None:
    rows = fact_rows(
        {"fact": NodeFact.XID, "code": 48},
        {"fact": NodeFact.XID, "code": 79},
        {"fact": NodeFact.XID, "code": 79, "subject": b"other"},
        {"fact": NodeFact.DISK_FULL},
    )
    assert len(present(attempt_of((5.0, rows)))) == 4


def test_nonsense_is_left_out() -> None:
    rows = fact_rows(
        {"fact": 0},
        {"fact": 9999},
        {"fact": NodeFact.XID, "present": -1},
        {"fact": NodeFact.XID, "present": 7},
        {"fact": NodeFact.DISK_FULL, "present": 0, "subject": b"never began"},
        {"fact": NodeFact.DISK_SLOW, "rank": 10**6, "began_ns": 2**63, "subject": b"\xff\xfe"},
    )
    attempt = attempt_of((5.0, rows))
    (fault,) = attempt.tracker(NodeFaults).faults({})
    assert (fault.fact, fault.rank, fault.subject) == (NodeFact.DISK_SLOW, -1, "\ufffd\ufffd")
    assert fault.began_s < 1e10, "it cannot have begun after it was reported"


def test_facts_are_bounded() -> None:
    attempt = Attempt(0)
    for number in range(node_faults.MAX_FACTS // node_faults.MAX_ROWS + 2):
        rows = fact_rows(
            *(
                {"fact": NodeFact.HUNG_TASK, "subject": f"{number}-{index}".encode()}
                for index in range(node_faults.MAX_ROWS + 5)
            )
        )
        attempt.apply(segment(1 + number, {Kind.NODE_FACT: rows}), Received(1.0, 1.0))
    assert len(present(attempt)) == node_faults.MAX_FACTS
