"""Segments of other versions: later formats are kept, unknown kinds counted and stored."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa

from stepwatch.collector.ingest.receive import ACCEPTED, DUPLICATE, REJECTED, UNSUPPORTED
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store, undecoded
from stepwatch.collector.web.api import make_api
from stepwatch.signals import names, wire
from stepwatch.signals.wire import format1, frame
from tests.collector.client import Client
from tests.collector.exported import metric
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.nodes.sightings import XID_79, report

RUN = run_segments(30)
LATER = 44


def of_later_format(segment: wire.Segment) -> bytes:
    """The segment in a format that only a later version reads: ours under another number."""
    _, header, payload, raw_size = frame.open_frame(wire.encode(segment))
    return frame.close_frame(LATER, header, payload, raw_size)


def read_later_format(patch: pytest.MonkeyPatch) -> None:
    """Let this be the later version."""
    patch.setattr(wire, "READABLE_FORMATS", (*wire.READABLE_FORMATS, LATER))
    patch.setitem(wire._DECODERS, LATER, format1.decode)


def test_an_answer_says_which_formats_are_read(service: Service) -> None:
    answer = Client(make_api(service)).post("/v1/segments", content=body(RUN[:1]))
    assert answer.json()["formats"] == list(wire.READABLE_FORMATS)


def test_a_later_format_is_kept_once_and_hurts_no_neighbour(service: Service, store: Store) -> None:
    sent = [wire.encode(RUN[0]), of_later_format(RUN[1]), wire.encode(RUN[2])]
    for first in (ACCEPTED, DUPLICATE):
        verdicts = service.receive(b"".join(sent))
        assert [(item.verdict, item.sequence) for item in verdicts] == [
            (first, 1),
            (UNSUPPORTED, 2),
            (first, 3),
        ]
        assert str(LATER) in verdicts[1].reason
    (undecoded,) = store.undecoded.of_formats([LATER])
    assert undecoded.payload == sent[1]
    assert metric(service, names.COLLECTOR_UNDECODED) == 1.0
    damaged = bytearray(sent[1])
    damaged[-1] ^= 1
    assert [item.verdict for item in service.receive(bytes(damaged))] == [REJECTED]


def test_a_later_version_applies_what_was_kept(
    service: Service, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.receive(body(RUN[:2]) + b"".join(map(of_later_format, RUN[2:5])))
    service.receive(body([RUN[5], RUN[4]]))
    same_version = Service(store, clock)
    assert metric(same_version, names.COLLECTOR_UNDECODED) == 3.0, (
        "this version still cannot read them"
    )
    read_later_format(monkeypatch)
    for _ in range(2):
        later = Service(store, clock)
        job_state = later.job(JOB)
        assert job_state is not None
        assert job_state[0].current.steps.history.rows["reported"].tolist() == [4] * 30
        assert metric(later, names.COLLECTOR_UNDECODED) == 0.0
    assert store.payload_bytes(JOB)[0] == len(RUN), "one came again in a format that could be read"


def test_a_reader_leaves_what_was_kept_to_the_collector(
    service: Service, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.receive(body(RUN[:2]) + of_later_format(RUN[2]))
    read_later_format(monkeypatch)
    reader = Service(store, clock, reads_only=True)
    assert metric(reader, names.COLLECTOR_UNDECODED) == 1.0
    assert store.payload_bytes(JOB)[0] == 2


def test_a_kept_segment_whose_type_is_damaged_keeps_no_collector_from_starting(
    service: Service, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.receive(of_later_format(RUN[1]))
    with store._engine.begin() as connection:
        connection.execute(sa.text("update undecoded set payload = cast(payload as text)"))
    read_later_format(monkeypatch)
    assert Service(store, clock).job(JOB) is not None


def test_what_is_kept_is_bounded(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [of_later_format(item) for item in RUN]
    monkeypatch.setattr(undecoded, "MAX_UNDECODED_BYTES", len(sent[0]) + len(sent[1]))
    verdicts = service.receive(b"".join(sent))
    assert {item.verdict for item in verdicts} == {UNSUPPORTED}
    assert store.undecoded.count() == 2 == metric(service, names.COLLECTOR_UNDECODED)


def test_tiny_segments_of_later_formats_do_not_fill_the_table_with_rows(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undecoded, "MAX_UNDECODED_SEGMENTS", 3)
    sent = [of_later_format(item) for item in RUN]
    service.receive(sent[0] + sent[1])
    service.receive(b"".join(sent))
    assert store.undecoded.count() == 3 == metric(service, names.COLLECTOR_UNDECODED)


def test_records_of_unknown_kinds_are_counted_and_stored(service: Service, store: Store) -> None:
    rows = np.zeros(3, dtype=[("rank", "<i4"), ("new", "<f8")])
    rows["new"] = 1.5
    item = RUN[0]._replace(unknown={999: rows})
    assert [v.verdict for v in service.receive(body([item, item]))] == [ACCEPTED, DUPLICATE]
    assert service.ingest.unknown_records == {999: 3}
    assert metric(service, names.COLLECTOR_UNKNOWN_RECORDS) == 3.0
    (stored,) = store.segments(JOB)
    assert wire.decode(stored.payload).unknown[999].tolist() == rows.tolist()


def test_kinds_beyond_the_limit_count_together(service: Service) -> None:
    rows = np.zeros(1, dtype=[("rank", "<i4")])
    for number, numbers in enumerate((range(100, 150), range(150, 200))):
        item = RUN[number]._replace(unknown=dict.fromkeys(numbers, rows))
        service.receive(body([item]))
    assert len(service.ingest.unknown_records) == 65
    assert sum(service.ingest.unknown_records.values()) == 100


def test_a_stored_blob_that_cannot_be_read_is_counted_and_kept(
    service: Service, store: Store, clock: HandClock
) -> None:
    service.receive(body(RUN))
    with store._engine.begin() as connection:
        connection.exec_driver_sql("update segment set payload = x'00' where sequence = 3")
    restarted = Service(store, clock)
    assert metric(restarted, names.COLLECTOR_UNREADABLE) == 1.0
    job_state = restarted.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].sum() == 4 * 25
    assert store.payload_bytes(JOB)[0] == len(RUN)


def test_a_later_version_applies_what_a_node_reported(
    service: Service, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = of_later_format(report(50.0, XID_79))
    assert [item.verdict for item in service.receive(sent)] == [UNSUPPORTED]
    read_later_format(monkeypatch)
    upgraded = Service(store, clock)
    assert store.undecoded.count() == 0 and store.jobs() == []
    assert upgraded.nodes.fleet().nodes["node-0"].state.health == "failed"
