"""The tables of the first releases, whose stores know no Alembic.

The first of them lack what later ones made when they opened a store.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make the table and the index that the first stores lack."""
    op.create_index("segment_job_id", "segment", ["job", "id"], if_not_exists=True)
    op.create_table(
        "undecoded",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("received_ns", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Nothing is older."""
