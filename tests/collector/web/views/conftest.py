"""A collector with a job that trained for two hours, so that its budgets are evaluated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collector.process import Process

from .runs import FACTS, OTHER, send_hours


@pytest.fixture(scope="package")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One for all tests of these views: they only look."""
    process = Process(tmp_path_factory.mktemp("collector"))
    process.start()
    process.wait_ready()
    send_hours(process)
    send_hours(process, OTHER, slow=False, facts={**FACTS, "learning_rate": "0.001"})
    yield process
    process.end()
