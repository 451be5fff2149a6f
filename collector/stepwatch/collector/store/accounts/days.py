"""Daily account of each job's device time.

Evaluations write the days; reports read them.
"""

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
    """One job's account for one day.

    `day_s` is the start of the UTC day in Unix seconds. `document` holds counts and the device time
    by cause, in whole microseconds.
    """

    job: str
    day_s: int
    job_class: str
    document: dict[str, Any]


def put_account_days(connection: sa.Connection, days: Iterable[AccountDay]) -> None:
    """Write days and replace the stored rows for the same days."""
    upsert(connection, schema.account_day, [day._asdict() for day in days])


def read_account_days(
    engine: sa.Engine, from_s: int, until_s: int, job: str | None = None
) -> list[AccountDay]:
    """Return the days that begin in [`from_s`, `until_s`), in time order, for one job or all jobs.

    A day with a damaged document is skipped and logged.

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
    """Return the JSON object in a text, or None if the text holds none."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
