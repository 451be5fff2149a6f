"""What looks after a store counts what it did; several collectors share it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

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
    op.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")


def downgrade() -> None:
    """Drop them; what they counted is lost."""
    for table in ("upkeep", "lease", "replica", "view", "outbox"):
        op.drop_table(table)
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
