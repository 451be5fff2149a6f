"""Merges node reports into the stored node data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store.database import insert, writing
from stepwatch.collector.store.schema import DAY_NS

from .reports import Report
from .tables import node, node_fact

KEEP_DAYS = 180
"""Retention for facts and nodes without a new report.

Repeat offenders are counted over a month, and a hardware return can take months.
"""
MOST_NODES = 20_000
"""Maximum number of nodes; the largest public single-run fleets have 3,000.

Further nodes are refused, because their names may be forged.
"""
MOST_FACTS = 2_000
"""Maximum number of rows per node, latest received first: at most a megabyte.

A port that flaps every five minutes fills them in a week.
"""
_AT_ONCE = 256


class NodeReports:
    """Merges reports into the node tables."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, reports: Sequence[Report]) -> list[str]:
        """Merge reports in one transaction; return a refusal reason per report, empty if accepted.

        Any order and any repetition of the same reports give the same rows.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        if not reports:
            return []
        with writing(self._engine) as connection:
            admitted = _admitted(connection, {report.node for report in reports})
            accepted = [report for report in reports if report.node in admitted]
            _join_nodes(connection, accepted)
            _join_facts(connection, accepted)
            for name in sorted({report.node for report in accepted if report.sighted}):
                _keep_newest(connection, name)
        refusal = f"{MOST_NODES} nodes are known; names of nodes must not change"
        return ["" if report.node in admitted else refusal for report in reports]

    def prune(self, now_ns: int) -> int:
        """Remove rows older than `KEEP_DAYS`; return the number of removed facts.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        cutoff_ns = now_ns - KEEP_DAYS * DAY_NS
        with writing(self._engine) as connection:
            old = sa.delete(node_fact).where(node_fact.c.received_ns < cutoff_ns)
            removed = connection.execute(old).rowcount
            connection.execute(sa.delete(node).where(node.c.received_ns < cutoff_ns, ~_has_facts()))
        return removed


def _has_facts() -> sa.Exists:
    return sa.exists().where(node_fact.c.node == node.c.node)


def _admitted(connection: sa.Connection, names: Collection[str]) -> set[str]:
    """Return the stored nodes among `names`, plus new ones while there is room."""
    ordered, admitted = sorted(names), set[str]()
    for start in range(0, len(ordered), _AT_ONCE):
        query = sa.select(node.c.node).where(node.c.node.in_(ordered[start : start + _AT_ONCE]))
        admitted.update(connection.execute(query).scalars())
    fresh = [name for name in ordered if name not in admitted]
    if not fresh:
        return admitted
    count = connection.execute(sa.select(sa.func.count()).select_from(node)).scalar_one()
    return admitted.union(fresh[: max(MOST_NODES - count, 0)])


def _greatest(statement: Any, table: sa.Table, *columns: str) -> dict[str, Any]:
    """Return, for each column, the larger of the stored and the new value."""
    return {
        name: sa.case(
            (statement.excluded[name] > table.c[name], statement.excluded[name]),
            else_=table.c[name],
        )
        for name in columns
    }


def _join_nodes(connection: sa.Connection, reports: Sequence[Report]) -> None:
    if not reports:
        return
    statement = insert(connection.dialect, node)
    new = statement.excluded
    # By time received: after one wrong clock reading, the node's clock would win until that moment.
    tie = sa.and_(
        new.received_ns == node.c.received_ns,
        sa.or_(
            new.reported_ns > node.c.reported_ns,
            sa.and_(new.reported_ns == node.c.reported_ns, new.version > node.c.version),
        ),
    )
    newer = sa.or_(new.received_ns > node.c.received_ns, tie)
    names = ("reported_ns", "received_ns", "version")
    statement = statement.on_conflict_do_update(
        index_elements=["node"],
        set_={name: sa.case((newer, new[name]), else_=node.c[name]) for name in names},
    )
    columns = ("node", "reported_ns", "received_ns", "version")
    # Sorted: two replicas that lock in the same order cannot deadlock.
    rows = sorted({tuple(getattr(report, name) for name in columns) for report in reports})
    connection.execute(statement, [dict(zip(columns, row, strict=True)) for row in rows])


def _join_facts(connection: sa.Connection, reports: Sequence[Report]) -> None:
    rows = sorted(sighted for report in reports for sighted in report.sighted)
    if not rows:
        return
    statement = insert(connection.dialect, node_fact)
    new, old = statement.excluded, node_fact.c
    later = sa.or_(
        new.seen_ns > old.seen_ns, sa.and_(new.seen_ns == old.seen_ns, new.text > old.text)
    )
    newer_attempt = sa.or_(
        new.job > old.job, sa.and_(new.job == old.job, new.attempt > old.attempt)
    )
    statement = statement.on_conflict_do_update(
        index_elements=[column.name for column in node_fact.primary_key],
        set_={
            **_greatest(statement, node_fact, "seen_ns", "ended_ns", "received_ns", "times"),
            "began_ns": sa.case((new.began_ns < old.began_ns, new.began_ns), else_=old.began_ns),
            "text": sa.case((later, new.text), else_=old.text),
            "job": sa.case((newer_attempt, new.job), else_=old.job),
            "attempt": sa.case((newer_attempt, new.attempt), else_=old.attempt),
        },
    )
    connection.execute(statement, [row._asdict() for row in rows])


def _keep_newest(connection: sa.Connection, name: str) -> None:
    """Delete a node's facts beyond `MOST_FACTS`, oldest received first."""
    of_node = node_fact.c.node == name
    received = node_fact.c.received_ns
    edge = sa.select(received).where(of_node).order_by(received.desc())
    oldest = connection.execute(edge.offset(MOST_FACTS).limit(1)).scalar_one_or_none()
    if oldest is not None:
        connection.execute(sa.delete(node_fact).where(of_node, received <= oldest))
