"""A collector and an agent for tests with real trainers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainers.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A collector and an agent as shipped."""
    (tmp_path / "rings").mkdir()
    services = Site(tmp_path, tmp_path / "rings")
    try:
        services.start()
        yield services
    finally:
        services.close()
