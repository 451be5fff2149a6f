"""Which sequence is read when: by position alone, whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.signals.errors import DataError
from stepwatch.trainer.data.dataset import Dataset
from stepwatch.trainer.data.loader import Loader, Slice
from stepwatch.trainer.data.order import epoch_order, sequence_numbers
from stepwatch.trainer.data.shards import prepare_shards


@given(st.integers(1, 200), st.integers(0, 2**32), st.integers(0, 5))
def test_an_epoch_reads_everything_once(count: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(count, seed, epoch)) == list(range(count))


@given(step=st.integers(0, 50), parts=st.sampled_from([1, 2, 4]), count=st.integers(1, 60))
def test_any_number_of_readers_reads_the_same_batch(step: int, parts: int, count: int) -> None:
    whole = sequence_numbers(step, 8, 0, 1, count, 3)
    shared = [n for part in range(parts) for n in sequence_numbers(step, 8, part, parts, count, 3)]
    assert shared == whole


def test_steps_go_through_epochs_without_a_seam() -> None:
    numbers = [n for step in range(10) for n in sequence_numbers(step, 3, 0, 1, 10, 1)]
    epochs = [numbers[start : start + 10] for start in (0, 10, 20)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_the_order_is_the_same_on_every_machine() -> None:
    # Written down once; a change would silently break every resume.
    assert epoch_order(8, 1, 0).tolist() == PINNED


PINNED = [3, 5, 2, 7, 0, 6, 1, 4]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Sequences of four bytes over two shards' worth of text."""
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(1, 101)))
    manifest = prepare_shards(tmp_path / "shards", str(path), 1 << 20)
    return Dataset(tmp_path / "shards", manifest, 4)


def test_targets_are_the_bytes_that_follow(dataset: Dataset) -> None:
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


def _loaded(dataset: Dataset, first: int, last: int, ahead: int) -> list[list[list[int]]]:
    share = Slice(batch=4, part=1, parts=2, seed=9)
    loader = Loader(dataset, share, first, last, ahead=ahead, before_next=lambda step: None)
    batches = [inputs.tolist() for inputs, _ in loader]
    assert loader.sequences_read == 2 * (last - first)
    return batches


@pytest.mark.parametrize("ahead", [0, 1, 8])
def test_reading_ahead_and_resuming_change_nothing(dataset: Dataset, ahead: int) -> None:
    straight = _loaded(dataset, 0, 9, 2)
    assert _loaded(dataset, 0, 5, ahead) + _loaded(dataset, 5, 9, ahead) == straight


def test_the_point_inside_next_is_reached_before_every_batch(dataset: Dataset) -> None:
    seen: list[int] = []
    share = Slice(batch=4, part=0, parts=1, seed=9)
    loader = Loader(dataset, share, 3, 6, ahead=2, before_next=seen.append)
    for number, _ in enumerate(loader, start=1):
        assert seen == list(range(3, 3 + number))
