"""Silences and notes on incidents; notices name their receiver and what they are about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"

_ADDED = (("receiver", 32), ("incident", 16), ("transition", 16), ("storm", 96))


def upgrade() -> None:
    """Make the tables; what waits in the outbox is for the receiver without a name."""
    op.create_table(
        "silence",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("why", sa.String(300), nullable=False),
        sa.Column("written_by", sa.String(80), nullable=False),
        sa.Column("since_ns", sa.BigInteger, nullable=False),
        sa.Column("until_ns", sa.BigInteger, nullable=False),
        sa.Column("expired_by", sa.String(80), nullable=False),
        sa.Column("alertmanager", sa.String(80), nullable=False),
    )
    op.create_index("silence_until_ns", "silence", ["until_ns"])
    op.create_table(
        "incident_note",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("incident", sa.String(16), nullable=False),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("written_by", sa.String(80), nullable=False),
        sa.Column("text", sa.String(1000), nullable=False),
    )
    op.create_index("incident_note_incident", "incident_note", ["incident"])
    op.create_index("incident_note_job", "incident_note", ["job"])
    for name, length in _ADDED:
        op.add_column(
            "outbox", sa.Column(name, sa.String(length), nullable=False, server_default="")
        )
    op.create_index("outbox_incident", "outbox", ["incident", "receiver"])
    op.create_index("outbox_storm", "outbox", ["storm"])
    op.execute("UPDATE meta SET value = '7' WHERE key = 'schema'")


def downgrade() -> None:
    """Drop them: silences and notes are lost, and what waits for a receiver with a name."""
    op.execute("DELETE FROM outbox WHERE receiver <> ''")
    op.drop_index("outbox_storm", "outbox")
    op.drop_index("outbox_incident", "outbox")
    for name, _ in reversed(_ADDED):
        op.drop_column("outbox", name)
    op.drop_table("incident_note")
    op.drop_table("silence")
    op.execute("UPDATE meta SET value = '6' WHERE key = 'schema'")
