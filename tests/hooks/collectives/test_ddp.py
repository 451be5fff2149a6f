"""The hooks of DistributedDataParallel beside what trainers do with such a module."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, NumericsSource, Op

torch = pytest.importorskip("torch", reason="the module is torch's")


@pytest.fixture
def single_rank_group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def attached(watch: Watch) -> Any:
    """A small module that `watch` is attached to."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    watch.attach(model=model)
    return model


@pytest.mark.usefixtures("single_rank_group")
def test_a_watched_module_can_be_copied_and_saved(rings: Path) -> None:
    watch = Watch.from_env(job="copies")
    model = attached(watch)
    saved = io.BytesIO()
    torch.save(model, saved)
    assert b"stepwatch" not in saved.getvalue(), "a checkpoint is read where stepwatch is not"
    saved.seek(0)
    for copied in (copy.deepcopy(model), torch.load(saved, weights_only=False)):
        assert torch.equal(copied(torch.ones(2, 4)), model(torch.ones(2, 4)))
    assert watch.guard.errors == 0
    watch.close()


@pytest.mark.usefixtures("single_rank_group")
def test_a_module_whose_backward_comes_later_keeps_its_wait(rings: Path) -> None:
    watch = Watch.from_env(job="two")
    first_model, two = attached(watch), attached(watch)
    with watch.step():
        first, second = first_model(torch.ones(2, 4)).sum(), two(torch.ones(2, 4)).sum()
        second.backward()
        (first * math.inf).backward()
    assert watch.guard.errors == 0
    watch.close()
    reader = RingReader(next(iter(find_rings(rings))))
    rows = reader.read().rows
    calls = rows[Kind.COLLECTIVE]
    # Group hooks (torch >= 2.14) also see what the modules broadcast when they were made.
    assert calls["count"][calls["op"] == Op.ALL_REDUCE].sum() == 2
    assert (rows[Kind.NUMERICS]["source"] == NumericsSource.COLLECTIVE_INPUT).any()
    reader.close()


def test_infinities_of_both_signs_are_found(rings: Path) -> None:
    watch = Watch.from_env(job="signs")
    with watch.step():
        tensors = [torch.ones(3), torch.full((2,), math.inf), torch.full((2,), -math.inf)]
        watch.instruments.numerics.check(tensors, str, NumericsSource.COLLECTIVE_INPUT)
    assert watch.guard.errors == 0
    watch.close()
    reader = RingReader(next(iter(find_rings(rings))))
    row = reader.read().rows[Kind.NUMERICS][0]
    assert (row["nonfinite"], bytes(row["text"])) == (2, b"1")
    reader.close()
