"""A collector process that answers; killed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.process import Process


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    process.start()
    process.wait_ready()
    yield process
    process.end()
