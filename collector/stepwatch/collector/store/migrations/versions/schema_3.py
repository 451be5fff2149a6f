"""Segments are put together in bundles, and what looks after a store counts what it did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from stepwatch.collector.store.bundles.apart import put_apart

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Make the tables that are new."""
    _make_upkeep()
    _make_bundles()
    op.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")


def downgrade() -> None:
    """Put bundles apart and drop what is new; what was counted is lost."""
    put_apart(op.get_bind())
    for table in ("bundle", "bundle_key", "upkeep"):
        op.drop_table(table)
    op.drop_column("job", "bundled")
    op.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")


def _make_upkeep() -> None:
    op.create_table(
        "upkeep",
        sa.Column("task", sa.String(16), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("last_ns", sa.BigInteger, nullable=False),
    )


def _make_bundles() -> None:
    op.add_column("job", sa.Column("bundled", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "bundle",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("segments", sa.Integer, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("first_received_ns", sa.BigInteger, nullable=False),
        sa.Column("last_received_ns", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("crc32", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("object", sa.String(255)),
    )
    op.create_index("bundle_job_last", "bundle", ["job", "last"], unique=True)
    op.create_table(
        "bundle_key",
        sa.Column("job", sa.String(63), primary_key=True),
        sa.Column("attempt", sa.BigInteger, primary_key=True),
        sa.Column("node", sa.String(63), primary_key=True),
        sa.Column("spool", sa.BigInteger, primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE bundle ALTER payload SET STORAGE EXTERNAL")
