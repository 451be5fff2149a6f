"""What segments say of nodes is joined with what is known of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store.database import insert, writing
from stepwatch.collector.store.schema import DAY_NS

from .reports import Report
from .tables import node, node_fact

KEEP_DAYS = 180
"""A fact that was not reported for so long goes, and so does a node that reported nothing: repeat
offenders are counted over a month, and a part that is returned is argued about over months."""
MOST_NODES = 20_000
"""Nodes that are kept; the largest public fleets of one run have 3,000. Further ones are refused,
as their names may be made up."""
MOST_FACTS = 2_000
"""Rows of one node, those received last: at most a megabyte. A port that flaps every five minutes
fills them in a week."""
_AT_ONCE = 256


class NodeReports:
    """Joins reports into the tables of nodes."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, reports: Sequence[Report]) -> list[str]:
        """Join reports in one transaction; returns why each is refused, empty where it is not.

        Any order and any repetition of the same reports leave the same rows.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; nothing was written.
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
        """Remove what is older than `KEEP_DAYS`; returns how many facts went.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
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
    """Those of `names` that are known, and further ones while there is room."""
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
    """For each column the larger of the value that is there and the one that comes."""
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
    # By when it came: a node's clock that was wrong once would be believed until it is that late.
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
    # Sorted: two replicas that take locks in one order do not wait for each other in a circle.
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
    """Drop what a node has beyond `MOST_FACTS`, those that were received longest ago."""
    of_node = node_fact.c.node == name
    received = node_fact.c.received_ns
    edge = sa.select(received).where(of_node).order_by(received.desc())
    oldest = connection.execute(edge.offset(MOST_FACTS).limit(1)).scalar_one_or_none()
    if oldest is not None:
        connection.execute(sa.delete(node_fact).where(of_node, received <= oldest))
