"""A training loop on the simulated device with three lines of stepwatch, as a user would write it.

The host enqueues and returns. Kernels take device time, `time.sleep` takes host time.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch
from stepwatch.hooks.context_managers import StepContext
from stepwatch.signals import places
from tests.simulated_device import device as sim
from tests.verdicts.device.faults import DeviceFaults, injector
from tests.verdicts.device.model import CLASSES, WIDTH, Kernels, Model, Optimizer
from tests.verdicts.plan import Plan

BATCH, TOKENS = 8, 512
_JITTER = 0.08
"""Relative spread of kernel and loader times, as real devices show it."""
_SIDE_SECONDS = 0.01
_CAPTURED_STEP = 2


class DeviceLoop:
    """One rank of one run."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.work, self.rank, self.number = plan, plan.device, rank, 0
        self.watch = Watch.from_env(job=plan.job)
        log = Path(os.environ[places.ENV_FAULT_LOG])
        self.inject = injector(plan.faults, self.work.faults, rank, log)
        self.faults = DeviceFaults(self.inject, self.work.link_seconds)
        self.noise = random.Random(f"{plan.seed}/{rank}")
        torch.manual_seed(plan.seed)
        self.truth = torch.randn(WIDTH, CLASSES)
        kernels = [self.kernels(block) for block in range(self.work.blocks)]
        model = Model(kernels, self.in_forward, checkpointing=self.work.checkpointing).to(sim.NAME)
        self.model = wrapped(model, fsdp2=self.work.fsdp2)
        self.optimizer = Optimizer(
            self.model.parameters(), lambda: self.about(self.work.optimizer_seconds)
        )
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        self.samples = torch.Generator().manual_seed(plan.seed * 1000 + rank)
        self.side = torch.Stream(device=sim.NAME)
        self.graph: Any = None

    def about(self, seconds: float) -> float:
        """Return a random time close to `seconds`."""
        return seconds * self.noise.uniform(1 - _JITTER, 1 + _JITTER)

    def kernels(self, block: int) -> Kernels:
        """Return the kernels of one block; faults hit the second one."""
        share = self.work.blocks * self.work.microbatches

        def seconds(phase: str, total: float) -> float:
            return self.about(total / share) + (self.faults.longer(phase) if block == 1 else 0.0)

        return Kernels(
            lambda: seconds("forward", self.plan.forward_seconds),
            lambda: seconds("backward", self.plan.backward_seconds),
        )

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches of all steps."""
        for number in range(self.plan.steps):
            self.inject.reach("data", number)
            time.sleep(self.about(self.plan.data_seconds))
            inputs = torch.randn(BATCH, WIDTH, generator=self.samples)
            yield inputs, (inputs @ self.truth).argmax(1)

    def loader(self) -> Iterable[tuple[Tensor, Tensor]]:
        """Return the batches, watched or not."""
        watched = self.work.marked or self.work.read_data
        return self.watch.batches(self.batches()) if watched else self.batches()

    def phase(self, step: StepContext, name: str) -> AbstractContextManager[Any]:
        """Return the mark of a phase; without marked phases it does nothing."""
        return step.phase(name) if self.work.marked else contextlib.nullcontext()

    def run(self) -> None:
        """Train to the last step."""
        time.sleep(self.rank * self.work.begin_apart_seconds)
        loss = torch.zeros(())
        for number, batch in enumerate(self.loader()):
            self.number = number
            with self.watch.step(tokens=TOKENS) as step:
                self.inject.reach("step", number)
                self.faults.begin(number)
                loss = self.train_step(batch, step)
            self.between(number + 1)
        loss.item()

    def train_step(self, batch: tuple[Tensor, Tensor], step: StepContext) -> Tensor:
        """Train one step."""
        loss, count = torch.zeros(()), self.work.microbatches
        self.aside()
        for number in range(count):
            with self.syncing(number + 1 == count):
                with self.phase(step, "forward"):
                    loss = self.forward(batch)
                with self.phase(step, "backward"):
                    loss.backward()  # type: ignore[no-untyped-call]
        with self.phase(step, "optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad()
        if self.work.loss_every and (self.number + 1) % self.work.loss_every == 0:
            step.record(loss=loss.item())
        elif self.work.marked:
            step.record(loss=loss.detach())
        return loss

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss of one batch."""
        inputs, labels = (tensor.to(sim.NAME, non_blocking=True) for tensor in batch)
        return torch.nn.functional.cross_entropy(self.model(inputs), labels)

    def in_forward(self) -> None:
        """Do the host work of each forward, besides the kernel launches."""
        self.inject.reach("forward", self.number)
        time.sleep(self.rank * self.work.launch_seconds)
        if self.number == 0:
            time.sleep(self.plan.first_seconds)  # compilation

    def syncing(self, last: bool) -> AbstractContextManager[Any]:
        """Reduce gradients in the backward of the last microbatch only."""
        if self.work.fsdp2:
            self.model.set_requires_gradient_sync(last)
            return contextlib.nullcontext()
        return contextlib.nullcontext() if last else self.model.no_sync()

    def aside(self) -> None:
        """Do the step's work outside the model: on a second stream, or in a graph."""
        if self.work.second_stream:
            torch.accelerator.current_stream().wait_stream(self.side)
            with self.side:
                sim.kernel(self.about(_SIDE_SECONDS))
        if not self.work.captured or self.number < _CAPTURED_STEP:
            return
        if self.graph is None:
            backend: Any = torch.get_device_module(sim.NAME)
            self.graph = backend.Graph()
            with backend.graph(self.graph):
                sim.kernel(_SIDE_SECONDS)
        self.graph.replay()

    def between(self, step: int) -> None:
        """Save a checkpoint or evaluate, if it is due after `step` steps."""
        plan = self.plan
        if plan.checkpoint_every and step % plan.checkpoint_every == 0:
            self.save(step)
        if plan.eval_every and step % plan.eval_every == 0:
            self.evaluate()

    def evaluate(self) -> None:
        """Run kernels without gradients, then a barrier."""
        marked = self.watch.phase("eval") if self.work.marked else contextlib.nullcontext()
        with marked:
            for _ in range(10):
                sim.kernel(self.about(self.plan.eval_seconds / 10))
            dist.barrier()
            torch.accelerator.synchronize()

    def save(self, step: int) -> None:
        """Write this rank's checkpoint file and wait until all ranks have written theirs."""
        path = Path(self.plan.folder, f"checkpoint-{self.rank}.pt")
        with self.watch.checkpoint(step) if self.work.marked else contextlib.nullcontext():
            state = {name: tensor.cpu() for name, tensor in self.model.state_dict().items()}
            time.sleep(self.about(self.plan.checkpoint_seconds))
            torch.save({"model": state, "step": step}, path)
            dist.barrier()


def wrapped(model: Model, *, fsdp2: bool) -> Any:
    """Return the model with its gradients reduced over all ranks."""
    if not fsdp2:
        return DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def train(plan: Plan, rank: int) -> None:
    """Join the other ranks, train and exit."""
    sim.load()
    sim.set_link(plan.device.link_seconds)
    sim.set_slow(plan.device.slow_factor)
    sim.set_depth(plan.device.depth)
    dist.init_process_group(f"cpu:gloo,{sim.NAME}:simccl", timeout=timedelta(seconds=300))
    loop = DeviceLoop(plan, rank)
    loop.run()
    loop.watch.finish()
    loop.watch.close()
    dist.barrier()
    torch.accelerator.synchronize()
    os._exit(0)  # Gloo's threads may still hold tensors: see the trainer's `leave`
