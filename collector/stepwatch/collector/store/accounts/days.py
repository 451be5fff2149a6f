"""What became of each job's device-time, by day: written with evaluations, read by reports."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import upsert

logger = logging.getLogger(__name__)


class AccountDay(NamedTuple):
    """One day (Unix seconds at which it begins, UTC) of a job, and its class.

    `document` holds whole microseconds of device-time by cause, and counts.
    """

    job: str
    day_s: int
    job_class: str
    document: dict[str, Any]


def put_account_days(connection: sa.Connection, days: Iterable[AccountDay]) -> None:
    """Write days in the place of what was known of them."""
    upsert(connection, schema.account_day, [day._asdict() for day in days])


def read_account_days(
    engine: sa.Engine, from_s: int, until_s: int, job: str | None = None
) -> list[AccountDay]:
    """Days that begin from `from_s` on and before `until_s`, in time order, of one job or all.

    One whose document is damaged is left out and logged.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    table = schema.account_day
    raw = sa.cast(table.c.document, sa.Text).label("raw")
    query = sa.select(table.c.job, table.c.day_s, table.c.job_class, raw)
    query = query.where(table.c.day_s >= from_s, table.c.day_s < until_s)
    if job is not None:
        query = query.where(table.c.job == job)
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(table.c.day_s, table.c.job)).all()
    days = []
    for row in rows:
        document = document_of(row.raw)
        if document is None:
            logger.warning("the account of job %s, day %s, is damaged", row.job, row.day_s)
        else:
            days.append(AccountDay(row.job, int(row.day_s), row.job_class, document))
    return days


def document_of(raw: str) -> dict[str, Any] | None:
    """The JSON object that a text holds; None where it holds none."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
