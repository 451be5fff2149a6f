"""Splits bundles back into segment rows, for a schema without bundles."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.collector.store.bundles import frame
from stepwatch.collector.store.bundles.objects import Reference, fetched
from stepwatch.signals import wire

_DAY_NS = 24 * 3600 * 1_000_000_000


def put_apart(connection: sa.Connection) -> int:
    """Insert the segments from all bundles and return their count; the bundles stay.

    Raises:
        SegmentError: a bundle cannot be read.
        ObjectsUnreachable: a bundle's object cannot be fetched.
    """
    # Tables as in schema 3: a migration uses the tables from its own time.
    names = ("payload", "object", "size", "crc32")
    bundle = sa.table("bundle", *map(sa.column, ("id", "job", "last", *names)))
    columns_of = (*wire.SegmentKey._fields, "position", "received_ns", "wall_ns", "wall_day")
    segment = sa.table("segment", *map(sa.column, (*columns_of, "row_count", "payload")))
    count = 0
    query = sa.select(bundle.c.id).order_by(bundle.c.job, bundle.c.last)
    for identity in connection.execute(query).scalars().all():
        of_bundle = bundle.c.id == identity
        columns = [bundle.c[name] for name in Reference._fields]
        reference = Reference(*connection.execute(sa.select(*columns).where(of_bundle)).one())
        contents = frame.unpacked(fetched(reference))
        rows = [_row(contents.placed(index)) for index in range(len(contents.positions))]
        connection.execute(sa.insert(segment), rows)
        count += len(rows)
    return count


def _row(placed: frame.Placed) -> dict[str, object]:
    sent = placed.sent
    return {
        **sent.key._asdict(),
        "position": placed.position,
        "received_ns": placed.received_ns,
        "wall_ns": sent.clock.wall_ns,
        "wall_day": sent.clock.wall_ns // _DAY_NS,
        "row_count": sum(len(rows) for _, rows in sent.tables),
        "payload": wire.write_sent(sent),
    }
