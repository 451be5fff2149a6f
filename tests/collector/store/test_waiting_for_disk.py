"""Only what can be computed again may be written without waiting for the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Lease
from stepwatch.signals.errors import LeaseLostError
from tests.collector.store.test_contract import SLICES, incident

FULL, NORMAL = 2, 1
"""SQLite's numbers for `PRAGMA synchronous`."""
SLICE = "goodput", SLICES[0]


@pytest.fixture
def levels(tmp_path: Path) -> Iterator[tuple[Store, list[int]]]:
    """A store, and the level at each of its commits."""
    store = Store.sqlite(tmp_path / "store.db")
    noted: list[int] = []

    def note(connection: sa.Connection) -> None:
        noted.append(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())

    sa.event.listen(store._engine, "commit", note)
    yield store, noted
    store.close()


def test_slices_do_not_wait_and_incidents_do(levels: tuple[Store, list[int]]) -> None:
    store, noted = levels
    store.save_evaluation("job", [SLICE], [])
    store.save_evaluation("job", [SLICE], [incident("a")])
    assert noted == [NORMAL, FULL]


def test_a_refused_write_leaves_a_connection_that_waits(levels: tuple[Store, list[int]]) -> None:
    store, _ = levels
    with pytest.raises(LeaseLostError):
        store.save_evaluation("job", [SLICE], [], Lease("job", "other", 1))
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == FULL
