"""What SLOs ask for is kept, with the moment from which on they do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Make the table; the next collector begins the first generation of each SLO."""
    op.create_table(
        "generation",
        sa.Column("slo", sa.String(63), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("since_s", sa.Float, nullable=False),
        sa.Column("revision", sa.String(16), nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("written_by", sa.String(160), nullable=False),
    )
    op.execute("UPDATE meta SET value = '5' WHERE key = 'schema'")


def downgrade() -> None:
    """Drop the generations: nothing else says when an SLO changed."""
    op.drop_table("generation")
    op.execute("UPDATE meta SET value = '4' WHERE key = 'schema'")
