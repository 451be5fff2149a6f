"""What is wrong with nodes is kept by node, whether or not a job runs there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Make the tables; agents report what is wrong from then on."""
    op.create_table(
        "node",
        sa.Column("node", sa.String(63), primary_key=True),
        sa.Column("reported_ns", sa.BigInteger, nullable=False),
        sa.Column("received_ns", sa.BigInteger, nullable=False),
        sa.Column("version", sa.String(24), nullable=False),
    )
    op.create_table(
        "node_fact",
        sa.Column("node", sa.String(63), primary_key=True),
        sa.Column("spool", sa.BigInteger, primary_key=True),
        sa.Column("fact", sa.Integer, primary_key=True),
        sa.Column("subject", sa.String(40), primary_key=True),
        sa.Column("code", sa.Integer, primary_key=True),
        sa.Column("monotonic_ns", sa.BigInteger, primary_key=True),
        sa.Column("began_ns", sa.BigInteger, nullable=False),
        sa.Column("seen_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_ns", sa.BigInteger, nullable=False),
        sa.Column("received_ns", sa.BigInteger, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("text", sa.String(200), nullable=False),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
    )
    op.create_index("node_fact_received_ns", "node_fact", ["received_ns"])
    op.execute("UPDATE meta SET value = '6' WHERE key = 'schema'")


def downgrade() -> None:
    """Drop them: the history of nodes is lost."""
    op.drop_table("node_fact")
    op.drop_table("node")
    op.execute("UPDATE meta SET value = '5' WHERE key = 'schema'")
