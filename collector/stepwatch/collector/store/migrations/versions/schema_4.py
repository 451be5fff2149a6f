"""What became of the device-time of each job is kept by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Make the table; days before the upgrade have no account."""
    op.create_table(
        "account_day",
        sa.Column("job", sa.String(63), primary_key=True),
        sa.Column("day_s", sa.BigInteger, primary_key=True),
        sa.Column("job_class", sa.String(63), nullable=False, server_default=""),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.execute("UPDATE meta SET value = '4' WHERE key = 'schema'")


def downgrade() -> None:
    """Drop the accounts: what is left in the log and in the slices is not enough for them."""
    op.drop_table("account_day")
    op.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")
