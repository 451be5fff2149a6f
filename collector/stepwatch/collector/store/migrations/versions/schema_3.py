"""What looks after a store counts what it did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Make the tables that are new."""
    _make_upkeep()
    op.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")


def downgrade() -> None:
    """Drop them; what they counted is lost."""
    op.drop_table("upkeep")
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
