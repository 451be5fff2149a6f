"""One data rank's batches; one thread reads ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from torch import Tensor

from .dataset import Dataset
from .order import sequence_numbers

Batch = tuple[Tensor, Tensor]
"""Inputs and targets, both int64 with shape (sequences, length)."""


@dataclass(frozen=True)
class BatchSlice:
    """The part that one data rank reads from every global batch: `part` of `parts` of `batch`."""

    batch: int
    part: int
    parts: int
    seed: int


class Loader:
    """Iterates over the batches for steps `first` up to `last`, in order.

    Args:
        dataset: sequences to read.
        batch_slice: the part to read from every batch.
        first, last: steps, `last` excluded.
        ahead: batches to read before the loop asks for them.
        before_next: called with the step inside every `next` (fault injection).
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_slice: BatchSlice,
        first: int,
        last: int,
        *,
        ahead: int,
        before_next: Callable[[int], None],
    ) -> None:
        self._dataset = dataset
        self._slice = batch_slice
        self._steps = range(first, last)
        self._ahead = ahead
        self._before_next = before_next
        self.sequences_read = 0

    def _read(self, step: int) -> Batch:
        s = self._slice
        return self._dataset.read(
            sequence_numbers(
                step, s.batch, part=s.part, parts=s.parts, count=len(self._dataset), seed=s.seed
            )
        )

    def __iter__(self) -> Iterator[Batch]:
        waiting: deque[Future[Batch]] = deque()
        unread = iter(self._steps)
        with ThreadPoolExecutor(1, thread_name_prefix="stepwatch-loader") as reader:
            for step in self._steps:
                while (
                    len(waiting) < self._ahead + 1 and (following := next(unread, None)) is not None
                ):
                    waiting.append(reader.submit(self._read, following))
                self._before_next(step)
                batch = waiting.popleft().result()
                self.sequences_read += len(batch[0])
                yield batch
