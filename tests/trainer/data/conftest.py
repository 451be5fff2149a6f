"""A small dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.trainer.data.dataset import Dataset
from stepwatch.trainer.data.shards import prepare_shards


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Twenty-five sequences of four bytes: 1 to 4, 5 to 8, ..."""
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(1, 101)))
    manifest = prepare_shards(tmp_path / "shards", str(path), 1 << 20)
    return Dataset(tmp_path / "shards", manifest, 4)
