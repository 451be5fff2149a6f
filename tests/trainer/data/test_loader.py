"""Batches of one data rank."""

from __future__ import annotations

import pytest

from stepwatch.trainer.data.dataset import Dataset
from stepwatch.trainer.data.loader import BatchSlice, Loader


def _read_batches(dataset: Dataset, first: int, last: int, ahead: int) -> list[list[list[int]]]:
    share = BatchSlice(batch=4, part=1, parts=2, seed=9)
    loader = Loader(dataset, share, first, last, ahead=ahead, before_next=lambda step: None)
    batches = [inputs.tolist() for inputs, _ in loader]
    assert loader.sequences_read == 2 * (last - first)
    return batches


@pytest.mark.parametrize("ahead", [0, 1, 8])
def test_reading_ahead_and_resuming_change_nothing(dataset: Dataset, ahead: int) -> None:
    straight = _read_batches(dataset, 0, 9, 2)
    assert _read_batches(dataset, 0, 5, ahead) + _read_batches(dataset, 5, 9, ahead) == straight


def test_the_fault_injection_point_is_reached_before_every_batch(dataset: Dataset) -> None:
    points: list[int] = []
    share = BatchSlice(batch=4, part=0, parts=1, seed=9)
    loader = Loader(dataset, share, 3, 6, ahead=2, before_next=points.append)
    for number, _ in enumerate(loader, start=1):
        assert points == list(range(3, 3 + number))
