"""History of each SLO's objective: every change begins a new generation."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert, writing

from .days import document_of

logger = logging.getLogger(__name__)

_BY_SIZE = 160
"""Column width in characters."""
_MOST = 1000
"""Maximum number of generations read per SLO, newest first."""


class Generation(NamedTuple):
    """An SLO's objective from `since_s` (Unix seconds) on; `number` counts from 1.

    `revision` changes with the `document`. `written_by` is the host and process that began the
    generation.
    """

    slo: str
    number: int
    since_s: float
    revision: str
    document: dict[str, Any]
    written_by: str


def note_generations(
    engine: sa.Engine, objectives: Mapping[str, tuple[str, dict[str, Any]]], now_s: float
) -> dict[str, Generation]:
    """Begin a new generation for each SLO whose revision differs from its newest one.

    `objectives` maps a name to its revision and document. Returns the generations in force. If two
    processes begin a generation at the same time, the first one wins.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    table = schema.generation
    writer = f"{socket.gethostname()}:{os.getpid()}"[:_BY_SIZE]
    with writing(engine) as connection:
        newest = _newest(connection)
        fresh = [
            Generation(
                name,
                newest[name].number + 1 if name in newest else 1,
                now_s,
                revision,
                document,
                writer,
            )
            for name, (revision, document) in objectives.items()
            if name not in newest or newest[name].revision != revision
        ]
        if fresh:
            statement = insert(connection.dialect, table).on_conflict_do_nothing()
            connection.execute(statement, [generation._asdict() for generation in fresh])
            newest = _newest(connection)
    return {name: newest[name] for name in objectives}


def newest_generations(engine: sa.Engine) -> dict[str, Generation]:
    """Return each SLO's newest generation by name.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    with engine.connect() as connection:
        return _newest(connection)


def read_generations(engine: sa.Engine, slo: str) -> list[Generation]:
    """Return all generations for an SLO, oldest first.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    table = schema.generation
    query = _all().where(table.c.slo == slo).order_by(table.c.number.desc()).limit(_MOST)
    with engine.connect() as connection:
        return [_generation(row) for row in connection.execute(query)][::-1]


def _all() -> sa.Select[Any]:
    """Select every column, with the document as raw text.

    A damaged document must not stop a reader.
    """
    table = schema.generation
    plain = [column for column in table.c if column.name != "document"]
    return sa.select(*plain, sa.cast(table.c.document, sa.Text).label("document"))


def _generation(row: sa.Row[Any]) -> Generation:
    """Return the row as a generation; a damaged document becomes an unknown objective."""
    document = document_of(row.document)
    if document is None:
        logger.warning("generation %s of SLO %s is damaged", row.number, row.slo)
        document = {"sli": "unknown", "asked": "unknown", "window": "unknown"}
    return Generation(**{**row._mapping, "document": document})


def _newest(connection: sa.Connection) -> dict[str, Generation]:
    table = schema.generation
    numbers = sa.select(table.c.slo, sa.func.max(table.c.number).label("number"))
    newest = numbers.group_by(table.c.slo).subquery()
    is_newest = (table.c.slo == newest.c.slo) & (table.c.number == newest.c.number)
    query = _all().join(newest, is_newest)
    return {row.slo: _generation(row) for row in connection.execute(query)}
