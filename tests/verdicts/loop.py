"""A bare DistributedDataParallel loop with the lines of `Watch`, as a user would write it.

Tensors, gradients, collectives and checkpoints are real. The device's work is a sleep, so that
eight ranks fit on two cores.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from stepwatch.faults import Injector
from stepwatch.faults.specs import WrongOrder, WrongShape
from stepwatch.hooks import Watch
from stepwatch.hooks.context_managers import StepContext
from tests.verdicts.plan import Plan

WIDTH, CLASSES, BATCH, TOKENS = 16, 4, 8, 512
_JITTER = 0.08
"""Relative spread of phase times between steps, as devices show it."""


class Loop:
    """One rank of one run."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank, self.number = plan, rank, 0
        self.watch = Watch.from_env(job=plan.job)
        self.inject = Injector.from_env(rank=rank)
        self.noise = random.Random(f"{plan.seed}/{rank}")
        torch.manual_seed(plan.seed)
        hidden = torch.nn.Linear(WIDTH, 32)
        self.truth = torch.randn(WIDTH, CLASSES)
        self.model = DistributedDataParallel(
            torch.nn.Sequential(hidden, torch.nn.Tanh(), torch.nn.Linear(32, CLASSES))
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        self.inject.poison(self.model, lambda: self.number)
        self.device = torch.Generator().manual_seed(plan.seed * 1000 + rank)

    def work(self, seconds: float) -> None:
        """Sleep for the work of the missing device."""
        time.sleep(seconds * self.noise.uniform(1 - _JITTER, 1 + _JITTER))

    def epoch(self, first: int, last: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches from step `first` to before step `last`."""
        for number in range(first, last):
            if number == first and number and self.plan.epoch_steps:
                time.sleep(self.plan.epoch_seconds)  # the workers start again
            self.inject.reach("data", number)
            self.work(self.plan.data_seconds)
            inputs = torch.randn(BATCH, WIDTH, generator=self.device)
            yield inputs, (inputs @ self.truth).argmax(1)

    def epochs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all batches; each epoch has its own watched loader."""
        every = self.plan.epoch_steps or self.plan.steps
        for first in range(0, self.plan.steps, every):
            yield from self.watch.batches(self.epoch(first, min(first + every, self.plan.steps)))

    def run(self) -> None:
        """Train to the last step."""
        for number, batch in enumerate(self.epochs()):
            self.number, skew = number, self.inject.skew(number)
            with self.watch.step(tokens=int(TOKENS * skew)) as step:
                self.inject.reach("step", number)
                self.train_step(batch, step, skew)
            self.between(number + 1)

    def train_step(self, batch: tuple[Tensor, Tensor], step: StepContext, skew: float) -> None:
        """Train one step."""
        plan, inputs = self.plan, batch[0]
        with step.phase("forward"):
            self.inject.reach("forward", self.number)
            self.work(plan.forward_seconds * skew)
            if self.number == 0:
                time.sleep(plan.first_seconds)  # compilation
            loss = torch.nn.functional.cross_entropy(self.model(inputs), batch[1])
        with step.phase("backward"):
            self.work(plan.backward_seconds * skew)
            loss.backward()  # type: ignore[no-untyped-call]
        with step.phase("optimizer"):
            grads = [
                parameter.grad
                for parameter in self.model.parameters()
                if parameter.grad is not None
            ]
            norm = torch.nn.utils.get_total_norm(grads)
            averages = self.exchange(torch.stack((loss.detach(), norm)))
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.inject.transform("parameters", self.number, self.model.parameters())
        step.record(loss=float(averages[0]), grad_norm=float(averages[1]))

    def exchange(self, figures: Tensor) -> Tensor:
        """Average the loss over ranks and gather the ranks' losses, as loggers do."""
        calls = [self.average, self.gather]
        if self.inject.due(WrongOrder, self.number):
            calls.reverse()
        results = {call: call(figures) for call in calls}
        return results[self.average]

    def average(self, figures: Tensor) -> Tensor:
        """All-reduce."""
        total = figures.clone()
        if self.inject.due(WrongShape, self.number):
            total = total.repeat(3)
        with self.watch.collective("all_reduce", nbytes=total.nbytes):
            self.inject.reach("transfer", self.number)
            dist.all_reduce(total)
        return total / self.plan.world

    def gather(self, figures: Tensor) -> Tensor:
        """All-gather."""
        parts = [torch.empty_like(figures) for _ in range(self.plan.world)]
        with self.watch.collective("all_gather", nbytes=figures.nbytes):
            dist.all_gather(parts, figures)
        return torch.stack(parts)

    def between(self, step: int) -> None:
        """Save, evaluate or change the learning rate, if it is due after `step` steps."""
        plan = self.plan
        if plan.checkpoint_every and step % plan.checkpoint_every == 0:
            self.save(step)
        if plan.eval_every and step % plan.eval_every == 0:
            with self.watch.phase("eval"):
                self.work(plan.eval_seconds)
                dist.barrier()
        if step == plan.rate_drop_step:
            for group in self.optimizer.param_groups:
                group["lr"] /= 10

    def save(self, step: int) -> None:
        """Write this rank's checkpoint file and wait until all ranks have written theirs."""
        path, began = Path(self.plan.folder, f"checkpoint-{self.rank}.pt"), time.monotonic()
        with self.watch.checkpoint(step) as handle:
            self.inject.reach("checkpoint:begin", step)
            self.work(self.plan.checkpoint_seconds)
            state = {"model": self.model.module.state_dict(), "step": step}
            torch.save(state, path)
            dist.barrier()
        handle.written(nbytes=path.stat().st_size, durable_seconds=time.monotonic() - began)
        if torch.load(path, weights_only=True)["step"] == step:
            handle.verified()


def train(plan: Plan, rank: int) -> None:
    """Join the other ranks, train and exit."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=300))
    loop = Loop(plan, rank)
    loop.run()
    loop.watch.finish()
    loop.watch.close()
    dist.barrier()
    os._exit(0)  # Gloo's threads may still hold tensors: see the trainer's `leave`
