"""One flipped byte anywhere is found, and named."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store, schema
from stepwatch.collector.store.upkeep.checks import problems
from tests.collector.made import JOB
from tests.collector.store.filled import add_evaluation, fill


def flip(store: Store, column: sa.Column[bytes], where: sa.ColumnElement[bool]) -> None:
    """Change the last byte of a blob."""
    table = column.table
    assert isinstance(table, sa.Table)
    with store.engine.begin() as connection:
        data = bytes(connection.execute(sa.select(column).where(where)).scalar_one())
        changed = data[:-1] + bytes([data[-1] ^ 1])
        connection.execute(sa.update(table).where(where).values({column.name: changed}))


def add_snapshot(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(
            sa.insert(schema.snapshot).values(
                job=JOB, position=3, format=1, saved_ns=5, size=3, crc32=0x352441C2, payload=b"abc"
            )
        )


def test_a_sound_store_has_no_problem(opened: Store) -> None:
    fill(opened)
    add_evaluation(opened, JOB, "open")
    opened.undecoded.keep([(b"later", 9)], 5)
    add_snapshot(opened)
    assert list(problems(opened.engine)) == []


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (schema.segment, f"segment 3 of job {JOB} is damaged: the checksum"),
        (schema.undecoded, "kept segment 1 does not match its digest"),
        (schema.snapshot, f"snapshot 1 of job {JOB} does not match its checksum"),
    ],
)
def test_a_flipped_byte_is_found(opened: Store, table: sa.Table, named: str) -> None:
    fill(opened)
    opened.undecoded.keep([(b"later", 9)], 5)
    add_snapshot(opened)
    where: sa.ColumnElement[bool] = sa.true()
    if table is schema.segment:
        where = sa.and_(table.c.job == JOB, table.c.position == 3)
    flip(opened, table.c.payload, where)
    (problem,) = problems(opened.engine)
    assert problem.startswith(named)


def test_a_segment_under_another_key_and_a_lost_position_are_found(opened: Store) -> None:
    fill(opened)
    with opened.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE segment SET node = 'other' WHERE position = 2")
        connection.exec_driver_sql(f"UPDATE job SET position = 4 WHERE name = '{JOB}'")
    problem_lines = list(problems(opened.engine))
    assert len(problem_lines) == 3
    assert f"job {JOB} has a segment at 6, but its row has 4" in problem_lines
    assert f"segment 2 of job {JOB} holds a segment of another key" in problem_lines


def test_a_damaged_file_is_a_problem_and_no_traceback(store: Store) -> None:
    fill(store)
    place = store.engine.url.database
    store.close()
    assert place is not None
    with open(place, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    assert list(problems(store.engine)) != []
