"""The schema after those of this version: an example of a migration forward and back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stepwatch.collector.store import database, migrations

BEFORE = migrations.SCHEMAS[-1]
NEXT = str(int(BEFORE) + 1)
_SCRIPT = f'''"""Silences name a ticket."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{BEFORE}"


def upgrade() -> None:
    """Silences that exist have no ticket."""
    ticket = sa.Column("ticket", sa.String(80), nullable=False, server_default="")
    op.add_column("silence", ticket)
    op.execute("UPDATE meta SET value = '{NEXT}' WHERE key = 'schema'")


def downgrade() -> None:
    """Tickets are lost."""
    op.drop_column("silence", "ticket")
    op.execute("UPDATE meta SET value = '{BEFORE}' WHERE key = 'schema'")
'''


def install(patch: pytest.MonkeyPatch, directory: Path) -> None:
    """Make this version one whose newest schema is `NEXT`; `directory` gets the migrations."""
    shutil.copytree(migrations.SCRIPTS / "versions", directory / "versions")
    (directory / "versions" / f"schema_{NEXT}.py").write_text(_SCRIPT)
    patch.setattr(migrations, "SCRIPTS", directory)
    patch.setattr(migrations, "SCHEMAS", (*migrations.SCHEMAS, NEXT))
    patch.setattr(database, "SCHEMA_VERSION", NEXT)
