"""The first schema: a new store has its tables, and Alembic's history begins here."""

from __future__ import annotations

revision = "1"
down_revision = None


def upgrade() -> None:
    """Do nothing: `schema.metadata` creates the tables."""


def downgrade() -> None:
    """Do nothing: no older schema exists."""
