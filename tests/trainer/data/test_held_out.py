"""Held-out text: follows the training text, and is divided over the data ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stepwatch.signals.errors import DataError
from stepwatch.trainer.data.held_out import HeldOut, held_out_bytes, write_held_out
from stepwatch.trainer.data.loader import BatchSlice
from stepwatch.trainer.data.shards import prepare_shards

_USED, _LENGTH, _BATCH, _BATCHES = 60, 4, 4, 2


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A source with two files: training uses the first and a part of the second."""
    source = tmp_path / "text"
    source.mkdir()
    (source / "a.txt").write_bytes(bytes(range(1, 51)))
    (source / "b.txt").write_bytes(bytes(range(51, 101)))
    return source


def _read(directory: Path, part: int, parts: int) -> list[torch.Tensor]:
    batch_slice = BatchSlice(_BATCH, part, parts, seed=1)
    held_out = HeldOut(directory, batch_slice, batches=_BATCHES, length=_LENGTH)
    return [inputs for inputs, _ in held_out]


def test_nothing_of_it_is_trained_on(text: Path, tmp_path: Path) -> None:
    prepare_shards(tmp_path, str(text), _USED)
    write_held_out(tmp_path, str(text), _USED, held_out_bytes(_BATCHES, _BATCH, _LENGTH))
    trained = (tmp_path / "shard-00000.bin").read_bytes()
    read = torch.cat(_read(tmp_path, 0, 1)).flatten().tolist()
    assert read == list(range(61, 93))
    assert not set(read) & set(trained)


def test_data_ranks_read_every_sequence_once(text: Path, tmp_path: Path) -> None:
    write_held_out(tmp_path, str(text), _USED, held_out_bytes(_BATCHES, _BATCH, _LENGTH))
    sequences, parts = _read(tmp_path, 0, 1), [_read(tmp_path, part, 2) for part in range(2)]
    for batch, *of_ranks in zip(sequences, *parts, strict=True):
        assert torch.equal(batch, torch.cat(of_ranks))


def test_too_little_text_says_what_to_do(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"40 bytes beside .* needs 65: lower --data-bytes"):
        write_held_out(tmp_path, str(text), _USED, held_out_bytes(4, _BATCH, _LENGTH))


def test_shards_have_no_text_to_evaluate_on(text: Path, tmp_path: Path) -> None:
    prepare_shards(tmp_path / "shards", str(text), _USED)
    with pytest.raises(DataError, match="leave out --eval-every"):
        write_held_out(tmp_path, str(tmp_path / "shards"), _USED, 1)
