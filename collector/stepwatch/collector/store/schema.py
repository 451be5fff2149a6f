"""Tables of the store: plain header columns beside each blob, so that queries never decode."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("value", sa.String(64), nullable=False),
)

segment = sa.Table(
    "segment",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("node", sa.String(63), nullable=False),
    sa.Column("spool", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("wall_ns", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.Integer, nullable=False),
    sa.Column("first_step", sa.BigInteger),
    sa.Column("last_step", sa.BigInteger),
    sa.Column("longest_step_ns", sa.BigInteger),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("job", "attempt", "node", "spool", "sequence"),
    sa.Index("segment_job_id", "job", "id"),
)

undecoded = sa.Table(
    "undecoded",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)

quarantine = sa.Table(
    "quarantine",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.String(300), nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
)

sli_slice = sa.Table(
    "sli_slice",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("sli", sa.String(63), primary_key=True),
    sa.Column("start_s", sa.BigInteger, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("good", sa.Float, nullable=False),
    sa.Column("total", sa.Float, nullable=False),
    sa.Column("observed", sa.BigInteger, nullable=False),
    sa.Column("expected", sa.BigInteger, nullable=False),
    sa.Column("cumulative_good", sa.Float, nullable=False),
    sa.Column("cumulative_total", sa.Float, nullable=False),
)

incident = sa.Table(
    "incident",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False, index=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("opened_at", sa.Float, nullable=False),
    sa.Column("document", sa.JSON, nullable=False),
)

snapshot = sa.Table(
    "snapshot",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("saved_ns", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("crc32", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Index("snapshot_job_id", "job", "id"),
)
