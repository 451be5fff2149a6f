"""A segment that the database refuses for good is refused with its reason; the others go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.ingest.receive import ACCEPTED, DUPLICATE, REJECTED
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from tests.collector.client import Client
from tests.collector.made import JOB, body, run_segments

RUN = run_segments(30)


@pytest.fixture
def refusing(tmp_path: Path, service: Service) -> Service:
    """A service whose database refuses the third segment whatever is tried."""
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute(
            "create trigger refuses before insert on segment when new.sequence = 3 "
            "begin select raise(abort, 'invalid byte sequence: 0x00'); end"
        )
    connection.close()
    return service


def test_one_refused_segment_holds_up_no_other(refusing: Service, store: Store) -> None:
    verdicts = refusing.receive(body(RUN))
    wanted = [REJECTED if item.key.sequence == 3 else ACCEPTED for item in RUN]
    assert [item.verdict for item in verdicts] == wanted
    assert "0x00" in verdicts[2].reason and verdicts[2].sequence == 3
    job_state = refusing.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].sum() == 4 * 25
    repeated = refusing.receive(body(RUN))
    assert [item.verdict for item in repeated] == [
        REJECTED if item.key.sequence == 3 else DUPLICATE for item in RUN
    ]
    assert store.payload_bytes(JOB)[0] == len(RUN) - 1


def test_a_refused_segment_is_answered_with_200_and_kept_for_whoever_looks(
    refusing: Service, tmp_path: Path
) -> None:
    answer = Client(make_api(refusing)).post("/v1/segments", content=body(RUN[2:3]))
    assert answer.status_code == 200
    assert [item["verdict"] for item in answer.json()["verdicts"]] == [REJECTED]
    with sqlite3.connect(tmp_path / "store.db") as connection:
        ((reason,),) = connection.execute("select reason from quarantine").fetchall()
    connection.close()
    assert "0x00" in reason


def raising(error: Exception) -> Callable[..., None]:
    """A listener that lets the insert of a segment fail as a driver would."""

    def listener(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement.startswith("INSERT INTO segment"):
            raise error

    return listener


def test_a_number_that_the_driver_cannot_bind_is_refused(service: Service, store: Store) -> None:
    listener = raising(OverflowError("Python int too large to convert to SQLite INTEGER"))
    sa.event.listen(store._engine, "before_cursor_execute", listener)
    verdicts = service.receive(body(RUN[:1]))
    sa.event.remove(store._engine, "before_cursor_execute", listener)
    assert [item.verdict for item in verdicts] == [REJECTED]
    assert "too large" in verdicts[0].reason


def test_an_outage_is_no_refusal(service: Service, store: Store) -> None:
    listener = raising(sa.exc.OperationalError("insert", {}, OSError("disk I/O error")))
    sa.event.listen(store._engine, "before_cursor_execute", listener)
    answer = Client(make_api(service)).post("/v1/segments", content=body(RUN[:1]))
    sa.event.remove(store._engine, "before_cursor_execute", listener)
    assert answer.status_code == 503 and "retry-after" in answer.headers
    assert [item.verdict for item in service.receive(body(RUN[:1]))] == [ACCEPTED]
