"""A store of schema 1, as the first releases made it, statement by statement."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from stepwatch.signals import wire
from tests.collector.made import EPOCH, JOB, run_segments

OTHER = "other-job"
INCIDENT = {
    "id": "0123456789abcdef",
    "job": JOB,
    "kind": "straggler",
    "state": "open",
    "opened_at": EPOCH + 3.5,
    "attempt": 0,
}
SLICES = [(EPOCH + 10 * i, 1, 8.0, 10.0, 40, 40, 8.0 * (i + 1), 10.0 * (i + 1)) for i in range(3)]
"""(start_s, version, good, total, observed, expected, cumulative_good, cumulative_total)"""
_TABLES = (
    "CREATE TABLE incident (id VARCHAR(16) NOT NULL, job VARCHAR(63) NOT NULL, "
    "kind VARCHAR(32) NOT NULL, state VARCHAR(16) NOT NULL, opened_at FLOAT NOT NULL, "
    "document JSON NOT NULL, PRIMARY KEY (id))",
    "CREATE INDEX ix_incident_job ON incident (job)",
    "CREATE INDEX ix_incident_state ON incident (state)",
    "CREATE TABLE meta (key VARCHAR(32) NOT NULL, value VARCHAR(64) NOT NULL, PRIMARY KEY (key))",
    "CREATE TABLE quarantine (id {number} NOT NULL, received_ns BIGINT NOT NULL, "
    "reason VARCHAR(300) NOT NULL, size INTEGER NOT NULL, head {bytes} NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE segment (id {number} NOT NULL, job VARCHAR(63) NOT NULL, "
    "attempt BIGINT NOT NULL, node VARCHAR(63) NOT NULL, spool BIGINT NOT NULL, "
    "sequence BIGINT NOT NULL, received_ns BIGINT NOT NULL, wall_ns BIGINT NOT NULL, "
    "row_count INTEGER NOT NULL, first_step BIGINT, last_step BIGINT, longest_step_ns BIGINT, "
    "payload {bytes} NOT NULL, PRIMARY KEY (id), UNIQUE (job, attempt, node, spool, sequence))",
    "CREATE INDEX segment_job_id ON segment (job, id)",
    "CREATE TABLE sli_slice (job VARCHAR(63) NOT NULL, sli VARCHAR(63) NOT NULL, "
    "start_s BIGINT NOT NULL, version INTEGER NOT NULL, good FLOAT NOT NULL, "
    "total FLOAT NOT NULL, observed BIGINT NOT NULL, expected BIGINT NOT NULL, "
    "cumulative_good FLOAT NOT NULL, cumulative_total FLOAT NOT NULL, "
    "PRIMARY KEY (job, sli, start_s))",
)
UNDECODED = (
    "CREATE TABLE undecoded (id {number} NOT NULL, digest VARCHAR(64) NOT NULL, "
    "format INTEGER NOT NULL, received_ns BIGINT NOT NULL, size INTEGER NOT NULL, "
    "payload {bytes} NOT NULL, PRIMARY KEY (id), UNIQUE (digest))"
)
_SEGMENT = sa.text(
    "INSERT INTO segment (job, attempt, node, spool, sequence, received_ns, wall_ns, row_count, "
    "payload) VALUES (:job, :attempt, :node, :spool, :sequence, :received_ns, :wall_ns, "
    ":row_count, :payload)"
)
_SLICE = sa.text(
    "INSERT INTO sli_slice VALUES (:job, 'goodput', :start, :version, :good, :total, "
    ":observed, :expected, :cumulative_good, :cumulative_total)"
)


def make(url: str, before_job_ids: bool = False) -> dict[str, list[bytes]]:
    """Make it with the segments of two jobs, alternating; returns their payloads by job.

    The first release of all had no place for segments of later formats, and no index by job.
    """
    pairs = zip(run_segments(30), run_segments(30, job=OTHER), strict=True)
    segments = [item for pair in pairs for item in pair]
    engine = sa.create_engine(url)
    words = {"number": "INTEGER", "bytes": "BLOB"}
    if engine.dialect.name == "postgresql":
        words = {"number": "SERIAL", "bytes": "BYTEA"}
    tables = [
        statement for statement in _TABLES if not (before_job_ids and "segment_job_id" in statement)
    ]
    with engine.begin() as connection:
        for statement in tables if before_job_ids else [*tables, UNDECODED]:
            connection.exec_driver_sql(statement.format(**words))
        connection.execute(sa.text("INSERT INTO meta VALUES ('schema', '1')"))
        connection.execute(
            _SEGMENT, [_row(item, position) for position, item in enumerate(segments)]
        )
        columns = {**INCIDENT, "document": json.dumps(INCIDENT)}
        connection.execute(
            sa.text(
                "INSERT INTO incident VALUES (:id, :job, :kind, :state, :opened_at, :document)"
            ),
            columns,
        )
        names = ["start", "version", "good", "total", "observed", "expected"]
        names += ["cumulative_good", "cumulative_total"]
        rows = [dict(zip(names, row, strict=True)) | {"job": JOB} for row in SLICES]
        connection.execute(_SLICE, rows)
    engine.dispose()
    return {
        name: [wire.encode(item) for item in segments if item.key.job == name]
        for name in (JOB, OTHER)
    }


def _row(item: wire.Segment, number: int) -> dict[str, Any]:
    return {
        **item.key._asdict(),
        "received_ns": 1000 + number,
        "wall_ns": item.clock.wall_ns,
        "row_count": item.row_count,
        "payload": wire.encode(item),
    }
