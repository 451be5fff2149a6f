"""Slices, incidents and kept segments: what is written is read back, on every database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import Store, StoredSegment, schema
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.store.slices import Slice
from stepwatch.signals import wire
from tests.collector.made import JOB, run_segments

SLICES = [Slice(start, 1, 7.5, 10.0, 40, 41, 7.5 * n, 10.0 * n) for n, start in enumerate((0, 10))]


def incident(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "id": name,
        "job": JOB,
        "kind": "hang",
        "state": "open",
        "opened_at": 1.0,
        "detail": {"ranks": [3], "text": "two\nlines, ü"},
        **changed,
    }


def test_slices_come_back_in_time_order_and_amended(opened: Store) -> None:
    opened.save_evaluation(JOB, [("goodput", part) for part in SLICES[::-1]], [])
    assert opened.slices(JOB, "goodput") == SLICES
    amended = SLICES[0]._replace(version=2, good=1.25)
    opened.save_evaluation(JOB, [("goodput", amended)], [])
    assert opened.slices(JOB, "goodput") == [amended, SLICES[1]]
    assert opened.slices(JOB, "step_time") == opened.slices("nobody", "goodput") == []


def test_a_coarse_slice_takes_the_place_of_those_in_it(opened: Store) -> None:
    last = Slice(300, 1, 7.5, 10.0, 40, 41, 15.0, 20.0)
    opened.save_evaluation(JOB, [("goodput", part) for part in (*SLICES, last)], [])
    opened.save_evaluation(JOB, [("step-time", part) for part in SLICES], [])
    coarse = Slice(0, 2, 15.0, 20.0, 80, 82, 7.5, 10.0, seconds=300)
    opened.save_evaluation(JOB, [("goodput", coarse)], [])
    assert opened.slices(JOB, "goodput") == [coarse, last]
    assert opened.slices(JOB, "step-time") == SLICES, "another SLI's stay"


def test_sums_before_moments_are_those_of_jobs_with_an_account(opened: Store) -> None:
    days = [AccountDay(JOB, 86_400, "a", {"owner": {"team": "ü"}, "steps": 3})]
    parts = [Slice(start, 1, 1.0, 2.0, 4, 4, 1.0 * n, 2.0 * n) for n, start in ((1, 10), (2, 40))]
    opened.save_evaluation(JOB, [("goodput", part) for part in parts], [], days=days)
    opened.save_evaluation("later", [("goodput", part) for part in parts], [])
    sums_by_job = opened.slice_sums("goodput", [10, 11, 40, 41], 0)
    assert {job: sums.tolist() for job, sums in sums_by_job.items()} == {
        JOB: [[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [2.0, 4.0]]
    }
    assert opened.slice_sums("goodput", [41], 86_401) == {}, "no day since then"
    assert list(opened.slice_sums("goodput", [41], 0, JOB)) == [JOB]
    assert opened.slice_sums("step-time", [41], 0) == opened.slice_sums("goodput", [41], 0, "x")
    assert opened.account_days(0, 1 << 40) == days


def test_incidents_are_found_by_id_job_and_state(opened: Store) -> None:
    incidents = [
        incident("a", opened_at=3.0),
        incident("b", job="other", opened_at=2.0),
        incident("c", state="resolved"),
    ]
    opened.save_evaluation(JOB, [], incidents)
    assert opened.incidents.newest() == incidents
    assert opened.incidents.newest(JOB) == [incidents[0], incidents[2]]
    assert opened.incidents.newest(state="open") == incidents[:2]
    assert opened.incidents.newest(limit=1) == incidents[:1]
    assert (opened.incidents.one("b"), opened.incidents.one("z")) == (incidents[1], None)
    resolved = incident("a", opened_at=3.0, state="resolved")
    opened.save_evaluation(JOB, [], [resolved])
    assert opened.incidents.one("a") == resolved and len(opened.incidents.newest()) == 3


def test_segments_of_later_formats_are_kept_once(opened: Store) -> None:
    undecoded = opened.undecoded
    assert undecoded.keep([(b"one", 9), (b"two", 8), (b"one", 9)], 5) == 2
    assert undecoded.keep([(b"one", 9)], 6) == 0
    (segment,) = undecoded.of_formats({9})
    assert (segment.payload, segment.received_ns) == (b"one", 5)
    undecoded.drop([segment.id])
    assert undecoded.count() == 1 and undecoded.of_formats({9}) == []


def test_rejected_segments_are_kept_with_any_reason(opened: Store) -> None:
    opened.quarantine([(b"x" * 9999, "a \0 in it"), (b"", "nothing")], 5)
    with opened._engine.connect() as connection:
        rows = connection.execute(sa.select(schema.quarantine)).all()
    assert [(row.size, len(row.head)) for row in rows] == [(9999, 4096), (0, 0)]


def test_the_bytes_of_a_job_are_counted(opened: Store) -> None:
    stored_segments = [StoredSegment(item, wire.encode(item)) for item in run_segments(30)]
    opened.add_segments(stored_segments, 1)
    assert opened.payload_bytes(JOB) == (
        6,
        sum(len(stored_segment.data) for stored_segment in stored_segments),
    )
    assert opened.payload_bytes("nobody") == (0, 0)
