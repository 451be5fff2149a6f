"""A store with one job whose rank 2 is slow, and what a collector found there."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from tests.collector.made import HandClock, body, run_segments


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Path of the store; the job still runs, as its last segment was just evaluated."""
    file = tmp_path / "store.db"
    store = Store.sqlite(file)
    clock = HandClock(60.0)
    service = Service(store, clock)
    for item in run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30):
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    assert [incident["kind"] for incident in store.incidents.newest()] == ["straggler"]
    store.close()
    return str(file)
