"""Schema migrations forward and back, through Alembic."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa

SCHEMAS = ("1", "2", "3")
"""Schemas that a store can have, oldest first; an open store has the last one."""
SCRIPTS = Path(__file__).parent
"""Directory whose `versions` folder has one file per schema."""


def migrate(connection: sa.Connection, schema: str) -> None:
    """Migrate the tables to a schema, forward or back, in the connection's transaction.

    Raises:
        alembic.util.CommandError: no file in `versions` has this schema.
    """
    # The caller logs an upgrade in one line; Alembic would log ten.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Imported here: opening a current store does not load Alembic.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.runtime.migration import MigrationContext, RevisionStep
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(SCRIPTS))

    def steps(heads: Any, _context: MigrationContext) -> list[RevisionStep]:
        now = int(heads[0]) if heads else 0
        if int(schema) >= now:
            return script._upgrade_revs(schema, heads)
        return script._downgrade_revs(schema, heads)

    environment = EnvironmentContext(Config(), script, fn=steps)
    environment.configure(connection=connection, transactional_ddl=True)
    environment.run_migrations()
