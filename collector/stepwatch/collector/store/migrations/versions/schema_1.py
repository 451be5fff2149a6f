"""The first schema: a new store has its tables, and Alembic begins here."""

from __future__ import annotations

revision = "1"
down_revision = None


def upgrade() -> None:
    """Do nothing: `schema.metadata` makes the tables."""


def downgrade() -> None:
    """Do nothing: no schema is older."""
