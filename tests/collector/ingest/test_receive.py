"""Every segment is stored once, answered in order, and acknowledged only when it is stored."""

from __future__ import annotations

import itertools
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.ingest import receive
from stepwatch.collector.ingest.receive import ACCEPTED, DUPLICATE, REJECTED, Ingest
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view
from stepwatch.collector.web.schema.job import JobSummary
from stepwatch.signals import wire
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment
from tests.collector.made import JOB, HandClock, body, random_rows, run_segments, segment, step_rows

RUN = run_segments(30)
STORED = [wire.encode(item) for item in RUN]


def view(service: Service) -> JobSummary:
    job_state = service.job(JOB)
    assert job_state is not None
    return job_view.job_summary(*job_state, service.now())


@settings(max_examples=25)
@given(
    order=st.lists(st.integers(0, len(RUN) - 1), max_size=20).map(
        lambda repeats: [*range(len(RUN)), *repeats]
    ),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    random=st.randoms(use_true_random=False),
)
def test_repeated_and_reordered_segments_count_once(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], cuts: list[int], random: object
) -> None:
    random.shuffle(order)  # type: ignore[attr-defined]
    store = Store.sqlite(tmp_path_factory.mktemp("store") / "s.db")
    service = Service(store, HandClock(60.0))
    verdicts = []
    edges = [0, *sorted(min(cut, len(order)) for cut in cuts), len(order)]
    for first, last in itertools.pairwise(edges):
        verdicts += service.receive(b"".join(STORED[index] for index in order[first:last]))
    first_seen = [index not in order[:position] for position, index in enumerate(order)]
    assert [item.verdict == ACCEPTED for item in verdicts] == first_seen
    assert [item.sequence for item in verdicts] == [RUN[i].key.sequence for i in order]
    job_state = service.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].tolist() == [4] * 30
    assert store.payload_bytes(JOB)[0] == len(RUN)
    store.close()


def test_poison_is_named_kept_and_hurts_no_neighbour(service: Service, store: Store) -> None:
    good, damaged = STORED[0], bytearray(STORED[1])
    damaged[-1] ^= 1
    verdicts = service.receive(good + bytes(damaged) + STORED[2] + b"rubbish")
    assert [(item.verdict, item.sequence) for item in verdicts] == [
        (ACCEPTED, 1),
        (REJECTED, 2),
        (ACCEPTED, 3),
        (REJECTED, None),
    ]
    assert "checksum" in verdicts[1].reason
    counts = service.ingest.counts
    assert (counts[ACCEPTED], counts[DUPLICATE], counts[REJECTED]) == (2, 0, 2)


def quarantined(path: Path) -> list[tuple[int, int, str]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("select size, length(head), reason from quarantine order by id")
        quarantine_rows = rows.fetchall()
    connection.close()
    return quarantine_rows


def test_quarantine_is_bounded(service: Service, tmp_path: Path) -> None:
    service.receive(b"x" * 100_000)
    assert quarantined(tmp_path / "store.db")[0][:2] == (100_000, 4096)
    bad = bytearray(STORED[0])
    bad[-1] ^= 1
    for _ in range(80):
        service.receive(bytes(bad) * 20)
    rows = quarantined(tmp_path / "store.db")
    assert len(rows) == 1000
    assert {row[0] for row in rows} == {len(bad)}, "the newest stay"


def test_a_flood_of_tiny_pieces_gets_a_bounded_answer(service: Service) -> None:
    piece = struct.pack("<8s4I", wire.MAGIC, 0, 0, 0, 0)
    verdicts = service.receive(piece * 50_000)
    assert len(verdicts) == receive.MAX_SEGMENTS + 1
    assert "in one request" in verdicts[-1].reason


def test_what_unfolds_to_too_much_is_taken_in_parts(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    row_counts: list[int] = []

    def apply(stored: list[tuple[int, Segment]], *_: object) -> None:
        row_counts.append(sum(item.row_count for _, item in stored))

    monkeypatch.setattr(receive, "DECODED_BYTES", 20_000)
    sent = [segment(i, {Kind.STEP: step_rows(range(50), range(1))}) for i in range(10)]
    verdicts = Ingest(store, clock, apply).receive(body(sent))
    assert [item.verdict for item in verdicts] == [ACCEPTED] * 10
    assert sum(row_counts) == 500
    assert len(row_counts) > 2 and max(row_counts) * 142 < 20_000 + 2 * 50 * 142


def test_rows_of_unknown_kinds_count_as_what_a_request_unfolds_to(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment_counts: list[int] = []
    monkeypatch.setattr(receive, "DECODED_BYTES", 20_000)
    rows = np.zeros(100, dtype=[("new", "S100")])
    sent = [segment(i, {})._replace(unknown={999: rows}) for i in range(10)]
    Ingest(store, clock, lambda segments, *_: segment_counts.append(len(segments))).receive(
        body(sent)
    )
    assert segment_counts == [2] * 5


def test_nothing_is_acknowledged_when_the_store_is_gone(service: Service, tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("alter table segment rename to away")
    database.commit()
    with pytest.raises(sa.exc.SQLAlchemyError):
        service.receive(STORED[0])
    assert service.job(JOB) is None
    database.execute("alter table away rename to segment")
    database.commit()
    database.close()
    assert [item.verdict for item in service.receive(STORED[0])] == [ACCEPTED]
    assert view(service)["step"] == 4


def test_stored_segments_are_seen_even_when_the_quarantine_fails(
    service: Service, tmp_path: Path
) -> None:
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("alter table quarantine rename to away")
    database.commit()
    with pytest.raises(sa.exc.SQLAlchemyError):
        service.receive(STORED[0] + b"rubbish")
    database.execute("alter table away rename to quarantine")
    database.commit()
    database.close()
    repeated = service.receive(STORED[0] + b"rubbish")
    assert [item.verdict for item in repeated] == [DUPLICATE, REJECTED]
    assert view(service)["step"] == 4, "stored, acknowledged as a duplicate, and evaluated"


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    store = Store.sqlite(tmp_path / "s.db")

    def shrink(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("pragma max_page_count=30")

    store.close()
    sa.event.listen(store._engine, "connect", shrink)
    service = Service(store, HandClock(60.0))
    acknowledged = 0
    noise = np.random.default_rng(0)
    with pytest.raises(sa.exc.OperationalError, match="full"):
        for index in range(100):
            rows = random_rows(Kind.COLLECTIVE, 50, noise)
            service.receive(wire.encode(segment(index, {Kind.COLLECTIVE: rows})))
            acknowledged += 1
    store.close()
    reopened = Store.sqlite(tmp_path / "s.db")
    assert reopened.payload_bytes(JOB)[0] == acknowledged > 0
    reopened.close()
