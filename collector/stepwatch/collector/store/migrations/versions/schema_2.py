"""Segments have a position in their job's log, and on PostgreSQL one partition per day.

The table is copied: no database adds a column that must not be empty, or divides a table, in place.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_DAY_NS = 86_400_000_000_000
_KEY = ["job", "attempt", "node", "spool", "sequence"]
_KEPT = f"{', '.join(_KEY)}, received_ns, wall_ns, row_count, payload"
_PARTITIONS = 400
"""Days that get a partition of their own, the newest: clocks that say absurd days do not."""


def upgrade() -> None:
    """Number the segments of each job in the order in which they were stored."""
    op.rename_table("segment", "segment_old")
    _make_tables()
    op.create_table(
        "segment",
        *_columns("position", "wall_day"),
        postgresql_partition_by="RANGE (wall_day)",
    )
    partitioned = op.get_bind().dialect.name == "postgresql"
    divided_by = ["wall_day"] if partitioned else []
    if partitioned:
        _make_partitions()
    # The day of a clock before 1970 is that before: -1 ns is of day -1, where a division says 0.
    # Numbered apart from their payloads, which no sort should carry along.
    op.execute(
        f"INSERT INTO segment ({_KEPT}, position, wall_day) SELECT {_KEPT}, position, "
        f"CASE WHEN wall_ns < 0 THEN (wall_ns + 1) / {_DAY_NS} - 1 ELSE wall_ns / {_DAY_NS} END "
        "FROM segment_old JOIN (SELECT id AS old_id, row_number() "
        "OVER (PARTITION BY job ORDER BY id) AS position FROM segment_old) AS numbered "
        "ON old_id = id"
    )
    op.drop_table("segment_old")
    op.create_index("segment_key", "segment", _KEY + divided_by, unique=True)
    op.create_index("segment_position", "segment", ["job", "position", *divided_by], unique=True)
    op.execute(
        "INSERT INTO job (name, position, first_received_ns, last_received_ns) "
        "SELECT job, max(position), min(received_ns), max(received_ns) FROM segment GROUP BY job"
    )
    op.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")


def downgrade() -> None:
    """Give segments back the numbers of one table, by when they came."""
    op.drop_index("segment_key", "segment")
    op.drop_index("segment_position", "segment")
    op.rename_table("segment", "segment_new")
    op.create_table(
        "segment",
        sa.Column("id", sa.Integer, primary_key=True),
        *_columns("first_step", "last_step", "longest_step_ns"),
        sa.UniqueConstraint(*_KEY),
    )
    op.create_index("segment_job_id", "segment", ["job", "id"])
    op.execute(
        f"INSERT INTO segment ({_KEPT}) SELECT {_KEPT} FROM segment_new "
        "ORDER BY received_ns, position"
    )
    for table in ("segment_new", "job", "snapshot"):
        op.drop_table(table)
    op.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")


def _columns(*added: str) -> list[sa.Column[object]]:
    """Columns of a segment: those that both schemas have, and those of these names."""
    columns: list[sa.Column[object]] = [
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
        sa.Column("first_step", sa.BigInteger),
        sa.Column("last_step", sa.BigInteger),
        sa.Column("longest_step_ns", sa.BigInteger),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    ]
    return [each for each in columns if each.name in _KEPT.split(", ") or each.name in added]


def _make_tables() -> None:
    op.create_table(
        "job",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("first_received_ns", sa.BigInteger, nullable=False),
        sa.Column("last_received_ns", sa.BigInteger, nullable=False),
    )
    op.create_index("job_last_received_ns", "job", ["last_received_ns"])
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "snapshot",
        sa.Column("id", number, primary_key=True),
        sa.Column("job", sa.String(63), nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("saved_ns", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("crc32", sa.BigInteger, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_index("snapshot_job_id", "snapshot", ["job", "id"])


def _make_partitions() -> None:
    days = op.get_bind().execute(
        sa.text(
            f"SELECT DISTINCT wall_ns / {_DAY_NS} AS day FROM segment_old "
            "WHERE wall_ns > 0 ORDER BY day DESC LIMIT :limit"
        ),
        {"limit": _PARTITIONS},
    )
    op.execute("ALTER TABLE segment ALTER payload SET STORAGE EXTERNAL")
    for (day,) in days.all():
        op.execute(
            f"CREATE TABLE segment_day_{day} PARTITION OF segment "
            f"FOR VALUES FROM ({day}) TO ({day + 1})"
        )
    op.execute("CREATE TABLE segment_default PARTITION OF segment DEFAULT")
