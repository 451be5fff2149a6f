"""What a rank's black box says at this moment, as an agent reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import phase_name
from tests.hooks.conftest import only_ring, rings, watch

__all__ = ["rings", "watch"]

Live = Callable[[], str]


@pytest.fixture
def live(watch: Watch, rings: Path) -> Live:
    """Names the phase that the ring shows."""
    return lambda: phase_name(only_ring(rings).live().phase)
