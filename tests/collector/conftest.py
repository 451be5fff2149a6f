"""A real SQLite store on disk, a service over it, and a clock that the test turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store

from .made import HandClock
from .process import Process, running


@pytest.fixture
def clock() -> HandClock:
    return HandClock(60.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.sqlite(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def service(store: Store, clock: HandClock) -> Service:
    return Service(store, clock)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Process]:
    """A collector process that answers; killed at the end."""
    with running(tmp_path) as process:
        yield process
