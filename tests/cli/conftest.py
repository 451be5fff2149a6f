"""A collector process that answers; killed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.process import Process, running


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Process]:
    with running(tmp_path) as process:
        yield process
