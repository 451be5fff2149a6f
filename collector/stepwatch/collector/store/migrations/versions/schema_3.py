"""Segments lie in bundles, collectors share a store, and what looks after it counts what it did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from stepwatch.collector.store.bundles.apart import put_apart

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Make the tables that are new; keys of segments lie by their sequence numbers."""
    _index_keys("job", "attempt", "sequence", "node", "spool")
    _make_upkeep()
    _make_leases()
    _make_views_and_outbox()
    seconds = sa.Column("seconds", sa.Integer, nullable=False, server_default="10")
    op.add_column("sli_slice", seconds)
    _make_bundles()
    op.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")


def downgrade() -> None:
    """Put bundles apart and drop what is new; what was counted is lost."""
    put_apart(op.get_bind())
    for table in ("bundle", "bundle_key", "upkeep", "lease", "replica", "view", "outbox"):
        op.drop_table(table)
    op.drop_column("job", "bundled")
    # What is left of a coarse slice is one of 10 s with its sums; cumulative sums stay exact.
    op.drop_column("sli_slice", "seconds")
    _index_keys("job", "attempt", "node", "spool", "sequence")
    op.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")


def _index_keys(*columns: str) -> None:
    """Make the unique index of segments anew; a partitioned one holds what it is divided by."""
    divided_by = ["wall_day"] if op.get_bind().dialect.name == "postgresql" else []
    op.drop_index("segment_key", "segment")
    op.create_index("segment_key", "segment", [*columns, *divided_by], unique=True)


def _make_upkeep() -> None:
    op.create_table(
        "upkeep",
        sa.Column("task", sa.String(16), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("last_ns", sa.BigInteger, nullable=False),
    )


def _make_leases() -> None:
    op.create_table(
        "lease",
        sa.Column("job", sa.String(63), primary_key=True),
        sa.Column("holder", sa.String(160), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("expires_ns", sa.BigInteger, nullable=False),
    )
    op.create_index("lease_holder", "lease", ["holder"])
    op.create_table(
        "replica",
        sa.Column("holder", sa.String(160), primary_key=True),
        sa.Column("expires_ns", sa.BigInteger, nullable=False),
    )


def _make_views_and_outbox() -> None:
    op.create_table(
        "view",
        sa.Column("job", sa.String(63), primary_key=True),
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("wanted_ns", sa.BigInteger, nullable=False),
        sa.Column("as_of", sa.Float, nullable=False),
        sa.Column("payload", sa.LargeBinary),
    )
    op.create_table(
        "outbox",
        sa.Column("key", sa.String(96), primary_key=True),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("due_ns", sa.BigInteger, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("outbox_state_due", "outbox", ["state", "due_ns"])


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
