"""The book of facts: what is present, since when, how often, and when it is over."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.facts.book import AGAIN_SECONDS, FactBook
from stepwatch.agent.facts.sighting import MAX_FACTS, Sighting
from stepwatch.signals.node_facts.catalogue import CATALOGUE, Severity
from stepwatch.signals.records import NodeFact
from stepwatch.signals.wire import Rows

S = 1_000_000_000
BEGIN = 10_000 * S
XID = Sighting(NodeFact.XID, "0000:3b:00", "fell off", code=79, happened=1, pid=42)
FULL = Sighting(NodeFact.DISK_FULL, "/ckpt", "1 % free")
QUIET = {fact: round(kind.quiet_seconds) for fact, kind in CATALOGUE.items()}


def reported(book: FactBook, now: int, ranks: dict[int, int] | None = None) -> Rows:
    book.settle(now)
    return book.rows(now, ranks or {})


def test_a_fact_is_reported_at_once_then_now_and_then_then_as_over() -> None:
    book = FactBook()
    book.take("kernel-log", [XID], BEGIN)
    (row,) = reported(book, BEGIN, {42: 3})
    assert (row["fact"], row["present"], row["code"], row["count"]) == (NodeFact.XID, 1, 79, 1)
    assert (row["rank"], row["subject"], row["text"]) == (3, b"0000:3b:00", b"fell off")
    now_ns = BEGIN
    reports = []
    for _ in range(QUIET[NodeFact.XID] + 5):
        now_ns += S
        book.take("kernel-log", [], now_ns)
        reports += [
            (round((now_ns - BEGIN) / S), int(row["present"])) for row in reported(book, now_ns)
        ]
    every = list(range(30, QUIET[NodeFact.XID], round(AGAIN_SECONDS)))
    assert reports == [*((second, 1) for second in every), (QUIET[NodeFact.XID], 0)]
    assert book.present() == []


def test_a_source_that_is_not_read_ends_nothing() -> None:
    book = FactBook()
    book.take("disk", [FULL], BEGIN)
    book.take("kernel-log", [], BEGIN + 3600 * S)
    assert [fact.key.subject for fact in book.present()] == ["/ckpt"], "unknown is not over"
    book.take("disk", [], BEGIN + 3601 * S)
    assert book.present() == []


def test_what_the_source_says_is_over_is_over_at_once() -> None:
    book = FactBook()
    down = Sighting(NodeFact.FILE_SERVER_SILENT, "fs1", happened=1)
    book.take("kernel-log", [down], BEGIN)
    reported(book, BEGIN)
    book.take("kernel-log", [down._replace(over=True)], BEGIN + S)
    (row,) = reported(book, BEGIN + S)
    assert row["present"] == 0
    assert len(reported(book, BEGIN + 60 * S)) == 0
    book.take("kernel-log", [down._replace(over=True)], BEGIN + 61 * S)
    assert len(reported(book, BEGIN + 61 * S)) == 0, "the end of nothing is nothing"


def test_a_storm_is_one_fact_and_few_reports() -> None:
    book = FactBook()
    rows = []
    for second in range(672):
        book.take("kernel-log", [XID._replace(code=45)], BEGIN + second * S // 100)
        rows += list(reported(book, BEGIN + second * S // 100))
    assert [fact.count for fact in book.present()] == [672]
    assert len(rows) < 12 and rows[-1]["count"] > 300, "as it doubles, and now and then"


def test_two_sources_of_one_error_do_not_double_it() -> None:
    book = FactBook()
    for second in range(3):
        book.take("kernel-log", [XID], BEGIN + second * S)
        book.take("nvml", [XID], BEGIN + second * S)
    assert [fact.count for fact in book.present()] == [3]


def test_what_was_long_before_this_agent_is_no_fact() -> None:
    book = FactBook()
    old = XID._replace(at_ns=BEGIN - QUIET[NodeFact.XID] * S)
    book.take("kernel-log", [old], BEGIN)
    assert book.present() == []
    book.take("kernel-log", [old._replace(at_ns=BEGIN - 5 * S)], BEGIN)
    assert book.present()[0].began_ns == BEGIN - 5 * S


def test_a_number_of_facts_beyond_all_bounds_is_refused_and_counted() -> None:
    book = FactBook()
    many = [Sighting(NodeFact.HUNG_TASK, f"p{number}") for number in range(MAX_FACTS + 9)]
    book.take("kernel-log", many, BEGIN)
    assert len(book.present()) == MAX_FACTS and book.refused == 9


def test_an_xid_is_as_bad_as_its_number() -> None:
    book = FactBook()
    book.take("kernel-log", [XID, XID._replace(code=45), XID._replace(code=9999)], BEGIN)
    assert [fact.severity for fact in book.present()] == [
        Severity.FATAL,
        Severity.EVIDENCE,
        Severity.DEGRADED,
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 400),
            st.sampled_from(["a", "b"]),
            st.lists(st.sampled_from([XID, FULL, FULL._replace(over=True)]), max_size=3),
        ),
        max_size=40,
    )
)
def test_who_follows_the_reports_knows_what_is_present(
    turns: list[tuple[int, str, list[Sighting]]],
) -> None:
    """Reports, taken one after the other, are the book: at any moment, whatever happened."""
    book, current, now = FactBook(), {}, BEGIN
    for seconds, source, sightings in turns:
        now += seconds * S
        book.take(source, sightings, now)
        for row in reported(book, now):
            current[int(row["fact"]), bytes(row["subject"]), int(row["code"])] = row
        present = {key for key, row in current.items() if row["present"] == 1}
        assert present == {
            (int(fact.key.fact), fact.key.subject.encode(), fact.key.code)
            for fact in book.present()
        }
        assert all(np.uint64(row["began_ns"]) <= now for row in current.values())
