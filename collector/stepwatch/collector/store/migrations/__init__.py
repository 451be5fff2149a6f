"""Changes of the tables from one schema to the next and back, through Alembic."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa

SCHEMAS = ("1",)
"""Schemas that a store is moved between, the oldest first; a store in use has the last."""
SCRIPTS = Path(__file__).parent
"""Directory whose `versions` hold one file per schema."""


def migrate(connection: sa.Connection, schema: str) -> None:
    """Bring the tables to a schema, later or earlier, in the connection's transaction.

    Raises:
        alembic.util.CommandError: no file in `versions` has this schema.
    """
    # One line says that a store is upgraded; Alembic would add ten.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Only here: a store that is up to date is opened without Alembic.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.runtime.migration import MigrationContext, RevisionStep
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(SCRIPTS))

    def steps(found: Any, _context: MigrationContext) -> list[RevisionStep]:
        now = int(found[0]) if found else 0
        if int(schema) >= now:
            return script._upgrade_revs(schema, found)
        return script._downgrade_revs(schema, found)

    environment = EnvironmentContext(Config(), script, fn=steps)
    environment.configure(connection=connection, transactional_ddl=True)
    environment.run_migrations()
