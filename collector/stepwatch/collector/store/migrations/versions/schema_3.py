"""Old SLI slices are packed into one block a day."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa
from alembic import op

from stepwatch.collector.store.slices.blocks import overlaid, unpacked
from stepwatch.collector.store.slices.rows import SLICE

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Create the blocks' table; the collector packs the rows that are there."""
    op.create_table(
        "slice_block",
        sa.Column("job", sa.String(63), primary_key=True),
        sa.Column("sli", sa.String(63), primary_key=True),
        sa.Column("day_s", sa.BigInteger, primary_key=True),
        sa.Column("first_s", sa.BigInteger, nullable=False),
        sa.Column("last_s", sa.BigInteger, nullable=False),
        sa.Column("end_s", sa.BigInteger, nullable=False),
        sa.Column("cumulative_good", sa.Float, nullable=False),
        sa.Column("cumulative_total", sa.Float, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")


def downgrade() -> None:
    """Each packed slice becomes a row."""
    connection = op.get_bind()
    keys = connection.execute(sa.text("SELECT job, sli, day_s FROM slice_block")).all()
    for key in keys:
        _unpack(connection, key._asdict())
    op.drop_table("slice_block")
    op.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")


def _unpack(connection: sa.Connection, key: dict[str, object]) -> None:
    """Write a block's slices as rows, except those that rows replace."""
    rows = np.array([tuple(row) for row in connection.execute(_ROWS, key)], SLICE)
    block = unpacked(bytes(connection.execute(_BLOCK, key).scalar_one()))
    slices = overlaid(block, rows)
    columns = [slices[name].tolist() for name in _COLUMNS]
    values = [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
    connection.execute(_INSERT, [{**key, **row} for row in values])


_COLUMNS = SLICE.names or ()
_OF_DAY = "job = :job AND sli = :sli AND"
_ROWS = sa.text(
    f"SELECT {', '.join(_COLUMNS)} FROM sli_slice WHERE {_OF_DAY} start_s >= :day_s "
    "AND start_s < :day_s + 86400 ORDER BY start_s"
)
_BLOCK = sa.text(f"SELECT payload FROM slice_block WHERE {_OF_DAY} day_s = :day_s")
_INSERT = sa.text(
    f"INSERT INTO sli_slice (job, sli, {', '.join(_COLUMNS)}) "
    f"VALUES (:job, :sli, {', '.join(f':{name}' for name in _COLUMNS)}) ON CONFLICT DO NOTHING"
)
