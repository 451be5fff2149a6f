"""Profiles are requested, and their traces and comparison kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Create the tables of profile requests and traces."""
    op.create_table(
        "profile_request",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("rank", sa.BigInteger, nullable=False),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("peer", sa.BigInteger, nullable=False),
        sa.Column("peer_node", sa.String(63), nullable=False),
        sa.Column("first_step", sa.BigInteger, nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("incidents", sa.JSON, nullable=False),
        sa.Column("requested_ns", sa.BigInteger, nullable=False),
        sa.Column("requested_by", sa.String(80), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("sentence", sa.String(1000), nullable=False),
        sa.Column("comparison", sa.JSON),
    )
    op.create_index("profile_request_job", "profile_request", ["job", "requested_ns"])
    op.create_index("profile_request_state", "profile_request", ["state", "requested_ns"])
    op.create_table(
        "profile_trace",
        sa.Column("request", sa.String(16), primary_key=True),
        sa.Column("rank", sa.BigInteger, primary_key=True),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("received_ns", sa.BigInteger, nullable=False),
    )
    op.create_index("profile_trace_received_ns", "profile_trace", ["received_ns"])
    op.create_index("profile_trace_job", "profile_trace", ["job"])
    op.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")


def downgrade() -> None:
    """Profiles are lost."""
    op.drop_table("profile_trace")
    op.drop_table("profile_request")
    op.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
