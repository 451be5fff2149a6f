"""Tables in the store: plain header columns beside each blob, so that queries never decode."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.signals.wire import Segment, SegmentKey

metadata = sa.MetaData()
DAY_NS = 24 * 3600 * 1_000_000_000
DEFAULT_PARTITION = "segment_default"
"""PostgreSQL's partition for segments with a day that has no partition."""

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("value", sa.String(64), nullable=False),
)

alembic_version = sa.Table(
    "alembic_version",
    metadata,
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, as Alembic creates it."""

job = sa.Table(
    "job",
    metadata,
    sa.Column("name", sa.String(63), primary_key=True),
    # The job's newest position; a writer that assigns positions locks this row.
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("first_received_ns", sa.BigInteger, nullable=False),
    sa.Column("last_received_ns", sa.BigInteger, nullable=False),
    # The last bundled position; 0 without bundles.
    sa.Column("bundled", sa.BigInteger, nullable=False, server_default="0"),
    sa.Index("job_last_received_ns", "last_received_ns"),
)

segment = sa.Table(
    "segment",
    metadata,
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("node", sa.String(63), nullable=False),
    sa.Column("spool", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("wall_ns", sa.BigInteger, nullable=False),
    sa.Column("wall_day", sa.Integer, nullable=False),
    sa.Column("row_count", sa.Integer, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    postgresql_partition_by="RANGE (wall_day)",
)


def _unique(name: str, *columns: str) -> None:
    """Declare a unique segment index; on a partitioned table it must include the partition key.

    A repeated segment carries its clock in its bytes, so its day is the same.
    """
    chosen = [segment.c[column] for column in columns]
    undivided = sa.Index(name, *chosen, unique=True)
    divided = sa.Index(name, *chosen, segment.c.wall_day, unique=True)
    undivided.ddl_if(dialect="sqlite")
    divided.ddl_if(dialect="postgresql")


# Nodes flush together, so equal sequence numbers are written together. With the node first, each
# row in a flush would change a different page.
_unique("segment_key", "job", "attempt", "sequence", "node", "spool")
_unique("segment_position", "job", "position")

for _statement in (
    f"CREATE TABLE {DEFAULT_PARTITION} PARTITION OF segment DEFAULT",
    # Payloads are compressed already.
    "ALTER TABLE segment ALTER payload SET STORAGE EXTERNAL",
    f"ALTER TABLE {DEFAULT_PARTITION} ALTER payload SET STORAGE EXTERNAL",
):
    _ddl = sa.DDL(_statement)  # type: ignore[no-untyped-call]
    sa.event.listen(segment, "after_create", _ddl.execute_if(dialect="postgresql"))

Key = tuple[str, int, str, int, int]
"""Unique segment key, as in `wire.SegmentKey`."""
Sender = tuple[int, str, int]
"""Attempt, node and spool: the scope of a sequence number."""


class SegmentRow(NamedTuple):
    """One segment's columns except its position, in table order: the key first.

    One is built per received segment, so it is a tuple: a dict takes five times as long, and so
    does every key lookup.
    """

    job: str
    attempt: int
    node: str
    spool: int
    sequence: int
    received_ns: int
    wall_ns: int
    wall_day: int
    row_count: int
    payload: bytes

    @classmethod
    def from_segment(cls, segment: Segment, data: bytes, received_ns: int) -> SegmentRow:
        """Return the row for a segment received as `data` at a wall time."""
        wall_ns = segment.clock.wall_ns
        day = wall_ns // DAY_NS
        return cls(*segment.key, received_ns, wall_ns, day, segment.row_count, data)

    def placed(self, position: int) -> tuple[object, ...]:
        """Return all table columns in order."""
        return (self.job, position, *self[1:])


COLUMNS = ("job", "position", *SegmentRow._fields[1:])
"""Column names for `SegmentRow.placed`."""

key_of: Callable[[SegmentRow], Key] = itemgetter(slice(len(SegmentKey._fields)))
"""Returns a row's segment key."""
sender_of: Callable[[SegmentRow], Sender] = itemgetter(slice(1, 4))
"""Returns a row's sender."""


bundle = sa.Table(
    "bundle",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    # Positions of the first and last segment.
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("segments", sa.Integer, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("first_received_ns", sa.BigInteger, nullable=False),
    sa.Column("last_received_ns", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("crc32", sa.BigInteger, nullable=False),
    # The bytes, or the object's name.
    sa.Column("payload", sa.LargeBinary),
    sa.Column("object", sa.String(255)),
    sa.Index("bundle_job_last", "job", "last", unique=True),
)
"""Bundled segments. A bundle spans days, so it belongs to no partition."""

bundle_key = sa.Table(
    "bundle_key",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("attempt", sa.BigInteger, primary_key=True),
    sa.Column("node", sa.String(63), primary_key=True),
    sa.Column("spool", sa.BigInteger, primary_key=True),
    # First and last sequence number.
    sa.Column("first", sa.BigInteger, primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)
"""Keys of bundled segments, to recognize repeated segments."""

_ddl = sa.DDL("ALTER TABLE bundle ALTER payload SET STORAGE EXTERNAL")  # type: ignore[no-untyped-call]
sa.event.listen(bundle, "after_create", _ddl.execute_if(dialect="postgresql"))

snapshot = sa.Table(
    "snapshot",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("saved_ns", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("crc32", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Index("snapshot_job_id", "job", "id"),
)

undecoded = sa.Table(
    "undecoded",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)

quarantine = sa.Table(
    "quarantine",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.String(300), nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
)

sli_slice = sa.Table(
    "sli_slice",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("sli", sa.String(63), primary_key=True),
    sa.Column("start_s", sa.BigInteger, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("good", sa.Float, nullable=False),
    sa.Column("total", sa.Float, nullable=False),
    sa.Column("observed", sa.BigInteger, nullable=False),
    sa.Column("expected", sa.BigInteger, nullable=False),
    sa.Column("cumulative_good", sa.Float, nullable=False),
    sa.Column("cumulative_total", sa.Float, nullable=False),
    sa.Column("seconds", sa.Integer, nullable=False, server_default="10"),
)

slice_block = sa.Table(
    "slice_block",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("sli", sa.String(63), primary_key=True),
    # The UTC day in which the slices start, Unix seconds.
    sa.Column("day_s", sa.BigInteger, primary_key=True),
    # Start of the first slice; start, end and running sums of the last one.
    sa.Column("first_s", sa.BigInteger, nullable=False),
    sa.Column("last_s", sa.BigInteger, nullable=False),
    sa.Column("end_s", sa.BigInteger, nullable=False),
    sa.Column("cumulative_good", sa.Float, nullable=False),
    sa.Column("cumulative_total", sa.Float, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)
"""Packed slices; a row of `sli_slice` is newer than they are."""

account_day = sa.Table(
    "account_day",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("day_s", sa.BigInteger, primary_key=True),
    sa.Column("job_class", sa.String(63), nullable=False, server_default=""),
    sa.Column("document", sa.JSON, nullable=False),
)
"""A job's device time in one UTC day: microseconds by cause, tokens, steps."""

generation = sa.Table(
    "generation",
    metadata,
    sa.Column("slo", sa.String(63), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("since_s", sa.Float, nullable=False),
    sa.Column("revision", sa.String(16), nullable=False),
    sa.Column("document", sa.JSON, nullable=False),
    sa.Column("written_by", sa.String(160), nullable=False),
)
"""Each SLO's objectives over time."""

upkeep = sa.Table(
    "upkeep",
    metadata,
    sa.Column("task", sa.String(16), primary_key=True),
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("last_ns", sa.BigInteger, nullable=False),
)
"""Maintenance totals since the store was created, by task and kind of data."""

incident = sa.Table(
    "incident",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False, index=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("opened_at", sa.Float, nullable=False),
    sa.Column("document", sa.JSON, nullable=False),
)

lease = sa.Table(
    "lease",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    # Empty if no collector should take the job up before it writes again.
    sa.Column("holder", sa.String(160), nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("expires_ns", sa.BigInteger, nullable=False),
    sa.Index("lease_holder", "holder"),
)
"""Which collector evaluates a job, and until when by the database's clock."""

replica = sa.Table(
    "replica",
    metadata,
    sa.Column("holder", sa.String(160), primary_key=True),
    sa.Column("expires_ns", sa.BigInteger, nullable=False),
)

view = sa.Table(
    "view",
    metadata,
    sa.Column("job", sa.String(63), primary_key=True),
    sa.Column("name", sa.String(63), primary_key=True),
    sa.Column("wanted_ns", sa.BigInteger, nullable=False),
    sa.Column("as_of", sa.Float, nullable=False),
    sa.Column("payload", sa.LargeBinary),
)
"""Answers about jobs for collectors that do not hold them; a null payload is a pending request."""

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("key", sa.String(96), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    # Time of the next try; after delivery, the delivery time.
    sa.Column("due_ns", sa.BigInteger, nullable=False),
    sa.Column("document", sa.JSON, nullable=False),
    # The receiver's name.
    sa.Column("receiver", sa.String(32), nullable=False, server_default=""),
    sa.Column("incident", sa.String(16), nullable=False, server_default=""),
    sa.Column("transition", sa.String(16), nullable=False, server_default=""),
    # The storm notice that summarises this one.
    sa.Column("storm", sa.String(96), nullable=False, server_default=""),
    sa.Index("outbox_state_due", "state", "due_ns"),
    sa.Index("outbox_incident", "incident", "receiver"),
    sa.Index("outbox_storm", "storm"),
)
"""Incident transitions to send, each once by its key."""
