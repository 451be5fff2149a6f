"""One store for each payload, made when a test first asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from .planted import plant


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def make(name: str) -> Path:
        place = tmp_path_factory.mktemp(name) / "store.db"
        plant(place, name)
        return place

    return make
