"""Tables for silences and incident notes."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.collector.store.schema import metadata

silence = sa.Table(
    "silence",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    # Empty matches any.
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("node", sa.String(63), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("why", sa.String(300), nullable=False),
    sa.Column("written_by", sa.String(80), nullable=False),
    # By the database's clock. After an early end, `until_ns` is its time and `expired_by` its
    # author.
    sa.Column("since_ns", sa.BigInteger, nullable=False),
    sa.Column("until_ns", sa.BigInteger, nullable=False),
    sa.Column("expired_by", sa.String(80), nullable=False),
    # Alertmanager's id for the silence; empty if it was not created there.
    sa.Column("alertmanager", sa.String(80), nullable=False),
    sa.Index("silence_until_ns", "until_ns"),
)

incident_note = sa.Table(
    "incident_note",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("incident", sa.String(16), nullable=False),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("event", sa.String(16), nullable=False),
    sa.Column("written_by", sa.String(80), nullable=False),
    sa.Column("text", sa.String(1000), nullable=False),
    sa.Index("incident_note_incident", "incident"),
    sa.Index("incident_note_job", "job"),
)
"""Append-only: a note never changes."""
