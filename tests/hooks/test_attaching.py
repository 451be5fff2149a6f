"""What `attach` puts on the trainer's objects is there once, and gone when the Watch closes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, Op, Phase

torch = pytest.importorskip("torch", reason="models and optimizers are torch's")


@pytest.fixture(autouse=True)
def single_rank_group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def reduce(communication: Any) -> Any:
    """What a communication object makes of ones."""
    output = torch.zeros(4)
    dist = torch.distributed
    communication(output, torch.ones(4), dist.group.WORLD, dist.ReduceOp.SUM)
    return output


class Trainer:
    """A model in one of the ways, and its optimizer."""

    def __init__(self, way: str) -> None:
        model: Any = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        if way == "ddp":
            model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        else:
            from torch.distributed.fsdp import fully_shard

            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
            fully_shard(model, mesh=mesh)
            model(torch.ones(2, 4))  # FSDP2 puts hooks of its own on groups, once
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def attributes(self) -> list[Any]:
        """All that a hook could be put on."""
        names: list[Any] = [list(vars(self.optimizer))]
        for module in self.model.modules():
            names += [list(module._forward_hooks), list(module._forward_pre_hooks)]
        for parameter in self.model.parameters():
            names.append(list(parameter._post_accumulate_grad_hooks or ()))
        for group in self.groups():
            names += [list(vars(group)), group._reduce_scatter_comm, group._all_gather_comm]
        return names

    def groups(self) -> list[Any]:
        """Parameter groups of FSDP2."""
        if not hasattr(self.model, "_get_fsdp_state"):
            return []
        state = self.model._get_fsdp_state()
        return getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]

    def step(self, watch: Watch) -> None:
        """One step."""
        with watch.step():
            self.model(torch.ones(2, 4)).sum().backward()
            for group in self.groups():  # FSDP2 of one rank reduces nothing itself
                reduce(group._reduce_scatter_comm)
            self.optimizer.step()
            self.optimizer.zero_grad()


def rows_of(rings: Path, job: str, kind: Kind) -> Any:
    """Records of the one rank of `job`."""
    for path in find_rings(rings):
        reader = RingReader(path)
        rows = reader.read().rows
        name = reader.identity.job
        reader.close()
        if name == job:
            return rows[kind]
    raise AssertionError(job)


WAYS = pytest.mark.parametrize("way", ["ddp", "fsdp"])


@WAYS
def test_closing_leaves_every_object_as_it_was(rings: Path, way: str) -> None:
    trainer = Trainer(way)
    attributes_before = trainer.attributes()
    watch = Watch.from_env(job="first")
    watch.attach(model=trainer.model, optimizer=trainer.optimizer)
    assert trainer.attributes() != attributes_before
    trainer.step(watch)
    watch.close()
    assert trainer.attributes() == attributes_before
    assert watch.guard.errors == 0


@WAYS
def test_the_next_watch_records_what_the_first_one_did(rings: Path, way: str) -> None:
    trainer = Trainer(way)
    for job in ("first", "second"):
        watch = Watch.from_env(job=job)
        watch.attach(model=trainer.model, optimizer=trainer.optimizer)
        trainer.step(watch)
        watch.close()
    first, second = (rows_of(rings, job, Kind.COLLECTIVE) for job in ("first", "second"))
    op = Op.ALL_REDUCE if way == "ddp" else Op.REDUCE_SCATTER
    counts = [rows["count"][rows["op"] == op].tolist() for rows in (first, second)]
    assert counts == [[1], [1]]
    assert (rows_of(rings, "second", Kind.STEP)["optimizer_ns"] > 0).all()


@WAYS
def test_attaching_twice_is_attaching_once(rings: Path, way: str) -> None:
    trainer = Trainer(way)
    watch = Watch.from_env(job="twice")
    watch.attach(model=trainer.model, optimizer=trainer.optimizer)
    once = trainer.attributes()
    watch.attach(model=trainer.model, optimizer=trainer.optimizer)
    assert trainer.attributes() == once
    watch.close()


class Around:
    """A communication object of the trainer's own, around the one that was set."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls = 0

    def allocate(self, *args: Any, **kwargs: Any) -> Any:
        """As the inner one."""
        return self.inner.allocate(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the inner one."""
        self.calls += 1
        return self.inner(*args, **kwargs)


def test_an_object_set_between_two_attaches_is_timed_once_and_stays(rings: Path) -> None:
    trainer = Trainer("fsdp")
    watch = Watch.from_env(job="custom")
    watch.attach(model=trainer.model)
    (group,) = trainer.groups()
    own_wrapper = Around(group._reduce_scatter_comm)
    trainer.model.set_custom_reduce_scatter(own_wrapper)
    watch.attach(model=trainer.model)
    watched = group._reduce_scatter_comm
    assert watched is not own_wrapper
    with watch.step():
        reduced = reduce(watched)
    watch.close()
    assert group._reduce_scatter_comm is own_wrapper
    assert own_wrapper.calls == 1
    assert torch.equal(reduced, torch.ones(4))
    rows = rows_of(rings, "custom", Kind.COLLECTIVE)
    assert rows["count"][rows["op"] == Op.REDUCE_SCATTER].tolist() == [1]
    assert watch.guard.errors == 0


def test_what_the_trainer_wraps_meanwhile_stays_and_does_nothing(rings: Path) -> None:
    trainer = Trainer("ddp")
    watch = Watch.from_env(job="wrapped")
    watch.attach(optimizer=trainer.optimizer)
    torch.optim.lr_scheduler.StepLR(trainer.optimizer, 1)
    watch.close()
    trainer.step(watch)
    second = Watch.from_env(job="second")
    second.attach(optimizer=trainer.optimizer)
    trainer.step(second)
    second.close()
    assert (rows_of(rings, "second", Kind.STEP)[f"{Phase.OPTIMIZER.name.lower()}_ns"] > 0).all()
    assert second.guard.errors == 0
