"""Packs slice rows into blocks, in the background: a restart reads a block 50 times faster.

Rows move oldest first, so what was put over a row stays over it. A moved row may be written again;
it is then put over its block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import lock_unavailable, upsert, writing
from stepwatch.collector.store.slices.blocks import by_day, overlaid, packed, unpacked
from stepwatch.collector.store.slices.reading import rows_of
from stepwatch.collector.store.slices.rows import SLICE, Slice
from stepwatch.signals.arrays import Rows

logger = logging.getLogger(__name__)

MOST_ROWS = 1024
"""Rows that an SLI of a job keeps unpacked, three hours of them: each pack writes a block anew."""
AT_ONCE = 2048
"""Rows per transaction: other writers wait for 20 ms."""
_ROW, _BLOCK = schema.sli_slice, schema.slice_block


def pack_rows(engine: sa.Engine) -> Iterator[int]:
    """Pack the rows of each SLI with more than `MOST_ROWS`; yield how many each transaction moved.

    Rows that a damaged block lacks stay rows.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer; uncommitted work is undone.
    """
    for job, sli in _long(engine):
        moved = AT_ONCE
        while moved == AT_ONCE:
            try:
                moved = _pack_some(engine, job, sli)
            except (TypeError, ValueError) as error:
                logger.error("the %s slices of %s stay unpacked: %s", sli, job, error)
                break
            yield moved


def _long(engine: sa.Engine) -> list[tuple[str, str]]:
    """Return each job and SLI with many rows."""
    names = _ROW.c.job, _ROW.c.sli
    query = sa.select(*names).group_by(*names).having(sa.func.count() > MOST_ROWS)
    with engine.connect() as connection:
        return [(job, sli) for job, sli in connection.execute(query.order_by(*names))]


def _pack_some(engine: sa.Engine, job: str, sli: str) -> int:
    """Move the oldest rows of a job's SLI into blocks; none while an evaluation writes them."""
    subject = {"job": job, "sli": sli}
    try:
        with writing(engine) as connection:
            rows = rows_of(connection.execute(_OLDEST, subject))
            blocks = [
                _block(connection, {**subject, "day_s": day_s}, of_day)
                for day_s, of_day in by_day(rows)
            ]
            upsert(connection, _BLOCK, blocks)
            keys = [{"of_job": job, "of_sli": sli, "start": s} for s in rows["start_s"].tolist()]
            if keys:
                connection.execute(_REMOVE, keys)
            return len(rows)
    except sa.exc.DBAPIError as error:
        if lock_unavailable(error):
            return 0
        raise


def _block(connection: sa.Connection, key: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """Return a day's block after `rows` were put over it."""
    of_key = (_BLOCK.c[name] == value for name, value in key.items())
    stored = connection.execute(sa.select(_BLOCK.c.payload).where(*of_key)).scalar_one_or_none()
    base = np.zeros(0, SLICE) if stored is None else unpacked(bytes(stored))
    slices = overlaid(base, rows)
    last = Slice(*slices[-1].item())
    return {
        **key,
        "first_s": int(slices["start_s"][0]),
        "last_s": last.start_s,
        "end_s": last.start_s + last.seconds,
        "cumulative_good": last.cumulative_good,
        "cumulative_total": last.cumulative_total,
        "payload": packed(slices),
    }


_OF_SUBJECT = _ROW.c.job == sa.bindparam("job"), _ROW.c.sli == sa.bindparam("sli")
_OLDEST = sa.select(*(_ROW.c[name] for name in Slice._fields)).where(*_OF_SUBJECT)
_OLDEST = _OLDEST.order_by(_ROW.c.start_s).limit(AT_ONCE)
# Without waiting: an evaluation locks rows in another order.
_OLDEST = _OLDEST.with_for_update(nowait=True)
_REMOVE = sa.delete(_ROW).where(
    _ROW.c.job == sa.bindparam("of_job"),
    _ROW.c.sli == sa.bindparam("of_sli"),
    _ROW.c.start_s == sa.bindparam("start"),
)
