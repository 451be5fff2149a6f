"""Byte sequences in memory-mapped shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from stepwatch.signals.errors import DataError

from .manifest import Manifest


class Dataset:
    """Sequences of `length` input bytes; the target of each byte is the byte after it.

    Args:
        directory: holds the shards.
        manifest: describes the shards; verify them first (`shard_error`).
        length: tokens per sequence.
        quarantined: indices of shards to skip.
    Raises:
        DataError: the shards hold less than one sequence.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        length: int,
        quarantined: frozenset[int] = frozenset(),
    ) -> None:
        self._length = length
        used = [shard for index, shard in enumerate(manifest.shards) if index not in quarantined]
        counts = [max(0, (shard.tokens - 1) // length) for shard in used]
        self._ends = np.cumsum(counts, dtype=np.int64)
        if not sum(counts):
            raise DataError(
                f"{directory} holds less than one sequence of {length + 1} bytes: add text"
            )
        self._arrays = [
            np.memmap(directory / shard.file, dtype=np.uint8, mode="r", shape=(shard.tokens,))
            for shard in used
        ]

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, numbers: list[int]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, both int64 with shape (len(numbers), length)."""
        rows = np.stack([self._row(number) for number in numbers]).astype(np.int64)
        tokens = torch.from_numpy(rows)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def _row(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        first = number - (int(self._ends[shard - 1]) if shard else 0)
        start = first * self._length
        return np.asarray(self._arrays[shard][start : start + self._length + 1])
