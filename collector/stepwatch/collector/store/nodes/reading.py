"""Reads the stored node data."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from .reports import Sighted
from .tables import node, node_fact
from .writing import MOST_FACTS, MOST_NODES


class NodeRow(NamedTuple):
    """A node's last report; see `tables.node`."""

    node: str
    reported_ns: int
    received_ns: int
    version: str


def node_rows(engine: sa.Engine) -> list[NodeRow]:
    """Return all nodes, by name.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    columns = [node.c[name] for name in NodeRow._fields]
    query = sa.select(*columns).order_by(node.c.node).limit(MOST_NODES)
    with engine.connect() as connection:
        return [NodeRow(*row) for row in connection.execute(query)]


def newest_sightings(engine: sa.Engine, since_ns: int, most: int) -> list[Sighted]:
    """Return at most `most` facts from all nodes received since a wall time, newest first.

    The time is on the collectors' clock: a node's clock may be wrong by years.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    return _read(engine, _newest().where(node_fact.c.received_ns >= since_ns).limit(most))


def sightings_of(engine: sa.Engine, name: str) -> list[Sighted]:
    """Return all stored facts for one node, newest first.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    return _read(engine, _newest().where(node_fact.c.node == name).limit(MOST_FACTS))


def _newest() -> sa.Select[Any]:
    columns = [node_fact.c[name] for name in Sighted._fields]
    return sa.select(*columns).order_by(node_fact.c.received_ns.desc(), *node_fact.primary_key)


def _read(engine: sa.Engine, query: sa.Select[Any]) -> list[Sighted]:
    with engine.connect() as connection:
        return [Sighted(*row) for row in connection.execute(query)]
