"""Sequences of bytes in shards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stepwatch.signals.errors import DataError
from stepwatch.trainer.data.dataset import Dataset
from stepwatch.trainer.data.shards import prepare_shards


def test_targets_are_the_bytes_after_the_inputs(dataset: Dataset) -> None:
    inputs, targets = dataset.read([0, 5])
    assert inputs.dtype == targets.dtype == torch.int64
    assert inputs.tolist() == [[1, 2, 3, 4], [21, 22, 23, 24]]
    assert targets.tolist() == [[2, 3, 4, 5], [22, 23, 24, 25]]
    assert len(dataset) == 25


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abc")
    manifest = prepare_shards(tmp_path / "shards", str(tmp_path / "text.txt"), 1 << 20)
    with pytest.raises(DataError, match="less than one sequence of 9 bytes"):
        Dataset(tmp_path / "shards", manifest, 8)
