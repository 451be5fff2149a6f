"""Held-out text: the source text after the training text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import DataError

from .dataset import Dataset
from .loader import Batch, BatchSlice
from .manifest import MANIFEST_NAME, Manifest, Shard
from .source import chosen_source, read_source

HELD_OUT_NAME = "held-out.bin"


def write_held_out(directory: Path, data: str | None, used_bytes: int, size: int) -> None:
    """Write the `size` source bytes that follow the first `used_bytes`.

    Raises:
        DataError: there are fewer, or a file or the directory cannot be used.
    """
    if data is not None and (Path(data) / MANIFEST_NAME).is_file():
        raise DataError(f"{data} holds shards and no text to evaluate on: leave out --eval-every")
    source, text, skipped = chosen_source(data), bytearray(), 0
    for _, content in read_source(source, used_bytes + size):
        skip = min(len(content), used_bytes - skipped)
        skipped += skip
        text += content[skip:]
    if len(text) < size:
        raise DataError(
            f"{source.root} holds {len(text)} bytes beside those trained on, an evaluation needs "
            f"{size}: lower --data-bytes or --eval-batches"
        )
    try:
        write_durably(directory / HELD_OUT_NAME, bytes(text))
    except OSError as error:
        raise DataError(f"cannot write held-out text to {directory}: {error.strerror}") from error


class HeldOut:
    """The batches for every evaluation: the same sequences, in text order.

    Args:
        directory: holds the file from `write_held_out`.
        batch_slice: the part to read from every batch.
        batches: number of batches in an evaluation.
        length: tokens per sequence.
    """

    def __init__(
        self, directory: Path, batch_slice: BatchSlice, *, batches: int, length: int
    ) -> None:
        size = held_out_bytes(batches, batch_slice.batch, length)
        shard = Shard(HELD_OUT_NAME, size, "", size)
        self._dataset = Dataset(directory, Manifest("", (shard,), ()), length)
        self._slice = batch_slice
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        batch, rows = self._slice.batch, self._slice.batch // self._slice.parts
        for number in range(self._batches):
            first = number * batch + self._slice.part * rows
            yield self._dataset.read(list(range(first, first + rows)))


def held_out_bytes(batches: int, batch: int, length: int) -> int:
    """Return the bytes in `batches` batches with `batch` sequences each, plus the last target."""
    return batches * batch * length + 1
