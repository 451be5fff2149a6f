"""Stores on SQLite and on a real PostgreSQL server: what holds on one holds on the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.collector.store import Store
from tests.postgresql import PostgresqlServer


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLAlchemy URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def opened(url: str) -> Iterator[Store]:
    """A new store at `url`."""
    store = Store(url)
    yield store
    store.close()
