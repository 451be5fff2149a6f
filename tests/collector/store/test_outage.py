"""A database that is gone, restarted or read-only: nothing is lost, and one line says so."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.ingest.receive import ACCEPTED, DUPLICATE
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.slices import Slice, put_slices
from stepwatch.collector.web.api import make_api
from stepwatch.signals.errors import StoreError
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.process import running
from tests.postgresql import PostgresqlServer
from tests.waiting import until

RUN = run_segments(30)
ROUNDS = 3


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the collector logged, none of it with a traceback."""
    records = [record for record in caplog.records if record.name.startswith("stepwatch")]
    assert not any(record.exc_info for record in records)
    return [record.message for record in records]


def test_the_database_goes_and_comes_back(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    store, clock = Store(postgresql.new_database()), HandClock(60.0)
    service = Service(store, clock)
    client = Client(make_api(service))
    service.receive(body(RUN[:2]))
    with postgresql.down(), caplog.at_level(logging.INFO):
        for _ in range(ROUNDS):
            answer = client.post("/v1/segments", body(RUN[2:4]))
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
            service.evaluate()
    assert [line.split()[0] for line in lines(caplog)] == ["cannot", "cannot"]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert client.post("/v1/segments", body(RUN[2:4])).status_code == 200
        service.evaluate()
    assert ["again" in line for line in lines(caplog)] == [True, True]
    assert [item.position for item in store.segments(JOB)] == [1, 2, 3, 4]
    job_state = service.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].tolist() == [4] * 20
    store.close()


def test_a_database_that_is_read_only_refuses_until_it_is_not(
    postgresql: PostgresqlServer,
) -> None:
    url = postgresql.new_database()
    store = Store(url)
    client = Client(make_api(Service(store, HandClock(60.0))))
    name = sa.make_url(url).database
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    for state, status in (("on", 503), ("off", 200)):
        postgresql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {state}")
        postgresql.execute(end)
        answer = client.post("/v1/segments", body(RUN[:2]))
        assert answer.status_code == status
    assert [item.position for item in store.segments(JOB)] == [1, 2]
    store.close()


def test_what_was_committed_before_the_answer_was_lost_is_a_repeat(
    postgresql: PostgresqlServer,
) -> None:
    store = Store(postgresql.new_database())
    service = Service(store, HandClock(60.0))

    def cut(_: sa.Connection) -> None:
        # Committed, but the server dies before it says so.
        sa.event.remove(store._engine, "commit", cut)
        raise sa.exc.OperationalError("commit", {}, OSError("server closed the connection"))

    sa.event.listen(store._engine, "commit", cut)
    with pytest.raises(sa.exc.OperationalError):
        service.receive(body(RUN[:2]))
    verdicts = {item.verdict for item in service.receive(body(RUN[:2]))}
    assert verdicts in ({ACCEPTED}, {DUPLICATE})
    assert [item.position for item in store.segments(JOB)] == [1, 2]
    store.close()


def test_a_disk_that_is_full_acknowledges_nothing_until_there_is_room(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    clock = HandClock(60.0)
    client = Client(make_api(Service(store, clock)))
    long = run_segments(300)
    assert client.post("/v1/segments", body(long[:2])).status_code == 200
    with store.engine.connect() as connection:
        pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    limit = pages + 2

    def bound(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={limit}")

    sa.event.listen(store.engine, "checkout", bound)
    # A transaction of many rows: the disk is full in the middle of it.
    for _ in range(ROUNDS):
        answer = client.post("/v1/segments", body(long))
        assert answer.status_code == 503 and "full" in answer.json()["error"]
    assert [item.position for item in store.segments(JOB)] == [1, 2]
    assert len(lines(caplog)) == 1
    limit = 1 << 30
    verdicts = client.post("/v1/segments", body(long)).json()["verdicts"]
    assert [item["verdict"] for item in verdicts] == [DUPLICATE] * 2 + [ACCEPTED] * 58
    assert [item.position for item in store.segments(JOB)] == [*range(1, 61)]


def test_a_collector_on_postgresql_shows_no_password(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    """A process that outlives its database, killed while it writes and started again."""
    with running(tmp_path, postgresql.new_database()) as collector:
        assert collector.send(body(RUN[:4])).status_code == 200
        with postgresql.down():
            assert collector.send(body(RUN)).status_code == 503
            until("a line about the outage", lambda: "cannot" in collector.log.read_text())
        verdicts = [item["verdict"] for item in collector.send(body(RUN)).json()["verdicts"]]
        assert verdicts == [DUPLICATE] * 4 + [ACCEPTED] * 2
        collector.end()
        collector.start()
        collector.wait_ready()
        repeated = collector.send(body(RUN)).json()["verdicts"]
        assert {item["verdict"] for item in repeated} == {DUPLICATE}
        log = collector.log.read_text()
    assert "postgresql+psycopg://stepwatch:***@" in log
    assert "not-shown" not in log and "Traceback" not in log


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:not-shown@127.0.0.1:1/none",
        "postgresql+psycopg://me:not-shown@127.0.0.1:port/none",
        "mysql://me:not-shown@127.0.0.1/none",
        "postgresql+nothing://me:not-shown@127.0.0.1/none?password=not-shown",
    ],
)
def test_a_database_that_cannot_be_opened_is_one_line_without_its_password(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        Store(url)
    message = str(refused.value)
    assert "--store" in message and "not-shown" not in message and "\n" not in message


def test_an_outage_is_logged_at_its_begin_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("read")
    with caplog.at_level(logging.INFO):
        outage.over()
        for number in range(5):
            outage.noted(sa.exc.SQLAlchemyError(f"failure {number}\nand its statement"))
        outage.over()
        outage.over()
        outage.noted(sa.exc.SQLAlchemyError("once more"))
    assert caplog.messages == [
        "cannot read: failure 0; it is tried again",
        "can read again, after 0 s",
        "cannot read: once more; it is tried again",
    ]


def test_a_locked_table_refuses_segments_within_seconds_and_readyz_reports_it(
    postgresql: PostgresqlServer,
) -> None:
    store = Store(postgresql.new_database())
    service = Service(store, HandClock(60.0))
    client = Client(make_api(service))
    service.receive(body(RUN[:2]))
    holder = sa.create_engine(store.engine.url)
    with holder.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE segment IN ACCESS EXCLUSIVE MODE")
        answer = client.post("/v1/segments", body(RUN[2:4]))
        assert answer.status_code == 503 and "lock timeout" in answer.text
        assert client.get("/readyz").status_code == 503
    assert client.post("/v1/segments", body(RUN[2:4])).status_code == 200
    assert client.get("/readyz").status_code == 200
    holder.dispose()
    store.close()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/a%00b",
        "/v1/jobs/a%00b/heatmap",
        "/v1/jobs/a%00b/collectives",
        "/v1/jobs/a%00b/slis",
        "/v1/jobs/a%00b/slos",
        "/v1/jobs/a%00b/run",
        "/v1/nodes/a%00b",
        "/v1/incidents?job=a%00b",
        "/v1/report?from=0&until=86400&job=a%00b",
        "/v1/runbooks/TrainingHang?incident=a%00b",
        "/v1/jobs/a%ff",
    ],
)
def test_a_control_character_in_an_address_is_the_clients_fault(
    postgresql: PostgresqlServer, path: str
) -> None:
    store = Store(postgresql.new_database())
    client = Client(make_api(Service(store, HandClock(60.0))))
    assert client.get(path).status_code in (400, 404)
    store.close()


@pytest.mark.parametrize("instead", ["deleted", "replaced"])
def test_a_store_file_that_is_deleted_or_replaced_takes_nothing_more(
    tmp_path: Path, instead: str
) -> None:
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    service = Service(store, HandClock(60.0))
    client = Client(make_api(service))
    service.receive(body(RUN[:2]))
    away = path.rename(tmp_path / "away.db")
    if instead == "replaced":
        path.touch()
    answer = client.post("/v1/segments", body(RUN[2:4]))
    assert answer.status_code == 503 and f"{path} was {instead}" in answer.text
    service.evaluate()
    assert client.get("/readyz").status_code == 503
    assert path.exists() == (instead == "replaced"), "no new file is made"
    away.rename(path)
    assert client.post("/v1/segments", body(RUN[2:4])).status_code == 200
    assert [item.position for item in store.segments(JOB)] == [1, 2, 3, 4]
    store.close()


def test_damaged_slices_of_one_job_quarantine_it_and_stop_no_other(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    for job in ("damaged", "sound"):
        rows = [
            {"job": job, "sli": "goodput", **Slice(start, 1, 1.0, 2.0, 4, 4, 1.0, 2.0)._asdict()}
            for start in range(0, 100_000, 10)
        ]
        with store.engine.begin() as connection:
            put_slices(connection, rows)
    service = Service(store, HandClock(60.0))
    for job in ("damaged", "sound"):
        service.receive(body(run_segments(30, job=job)))
    service.evaluate()
    service.stop()
    store.close()
    with closing(sqlite3.connect(path)) as file:  # what the log for writes holds goes into the file
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _damage_a_page(path, b"damaged", excluded=b"sound")
    store = Store.sqlite(path)
    service = Service(store, HandClock(60.0))
    for _ in range(5):
        service.evaluate()
    assert "the store cannot read" in service.withheld()["damaged"].reason
    assert service.job("sound") is not None
    store.close()


def _damage_a_page(path: Path, job: bytes, excluded: bytes) -> None:
    """Overwrite the first byte, the kind, of a page that holds slices of `job` alone."""
    size = 4096
    content = bytearray(path.read_bytes())
    pages = [
        offset
        for offset in range(size, len(content), size)
        if (page := bytes(content[offset : offset + size])).count(job + b"goodput") > 20
        and excluded not in page
    ]
    content[pages[len(pages) // 2]] = 0
    path.write_bytes(content)


def test_a_file_server_that_hiccups_is_an_outage_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    service = Service(store, HandClock(60.0))
    client = Client(make_api(service))
    client.post("/v1/segments", body(RUN[:2]))
    looked_at = Path.stat

    def stale(self: Path, **options: bool) -> os.stat_result:
        if self.name == "store.db":
            raise OSError(errno.ESTALE, "Stale file handle")
        return looked_at(self, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stale)
        assert client.post("/v1/segments", body(RUN[2:4])).status_code == 503
        service.evaluate()
    assert client.post("/v1/segments", body(RUN[2:4])).status_code == 200
    store.close()
