"""Megatron-LM's data iterators rewind, and it insists on their type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.adapters.megatron import _watched
from stepwatch.hooks.adapters.wrappers import Fetched
from stepwatch.hooks.auto import LoopObserver
from stepwatch.signals.records import Kind
from tests.hooks.conftest import rows_in

BATCHES = 6


class RerunDataIterator:
    """As in megatron.core.rerun_state_machine 0.16: no `__iter__`, and batches can be replayed."""

    def __init__(self, iterable: Iterator[int]) -> None:
        self.iterable = iterable
        self.batches: list[int] = []
        self.replay_at = -1

    def __next__(self) -> int:
        """Return the next batch, or a replayed one."""
        if 0 <= self.replay_at < len(self.batches):
            self.replay_at += 1
            return self.batches[self.replay_at - 1]
        self.batches.append(next(self.iterable))
        return self.batches[-1]

    def rewind(self) -> None:
        """Give all batches again."""
        self.replay_at = 0


def test_an_iterator_that_rewinds_keeps_its_type_and_gives_the_same_again(
    watch: Watch, rings: Path
) -> None:
    source = iter(range(BATCHES))
    data, observer = RerunDataIterator(source), LoopObserver(watch.steps, boundaries=False)
    for _step in range(BATCHES // 2):
        assert _watched(observer, data) is data
        assert [next(data), next(data)] == data.batches[-2:]
        observer.end_step()
    assert data.batches == list(range(BATCHES))
    assert isinstance(data.iterable, Fetched) and vars(data.iterable)["_iterator"] is source
    data.rewind()
    assert [next(data) for _ in range(BATCHES)] == data.batches
    with pytest.raises(StopIteration):
        next(data)
    assert watch.guard.errors == 0
    watch.close()
    steps = rows_in(rings, Kind.STEP)
    assert steps["step"].tolist() == [0, 1, 2] and (steps["data_ns"] > 0).all()


def test_one_per_model_chunk_and_none_are_passed_on(watch: Watch) -> None:
    observer = LoopObserver(watch.steps, boundaries=False)
    chunks = [RerunDataIterator(iter(range(BATCHES))), None]
    assert _watched(observer, chunks) == chunks
    unknown = SimpleNamespace(rewind=print)
    assert _watched(observer, unknown) is unknown and vars(unknown) == {"rewind": print}


def test_what_an_iterator_has_besides_its_batches_is_still_there(watch: Watch) -> None:
    data = RerunDataIterator(iter(range(BATCHES)))
    fetched = Fetched(LoopObserver(watch.steps, boundaries=False), data)
    assert next(fetched) == 0 and fetched.batches == [0] and iter(fetched) is fetched
    with pytest.raises(AttributeError):
        _ = fetched.missing
