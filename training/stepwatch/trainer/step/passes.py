"""Forward and backward over one batch: through the pipeline, or micro-batch by micro-batch."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Protocol

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks.context_managers import StepContext
from stepwatch.trainer.data.loader import Batch
from stepwatch.trainer.model.decoder import next_byte_loss
from stepwatch.trainer.parallel.assemble import Share
from stepwatch.trainer.parallel.pipeline import BusyTime, Schedule


class Passes(Protocol):
    """Leaves gradients of the mean loss in the parameters."""

    def run(self, batch: Batch, step: StepContext) -> Tensor:
        """Return the mean loss of this rank's sequences, 0 where it is not computed here."""
        ...


class PipelinePasses:
    """All micro-batches through torch's schedule."""

    def __init__(self, share: Share, schedule: Schedule, busy: BusyTime) -> None:
        self._share = share
        self._schedule = schedule
        self._busy = busy

    def run(self, batch: Batch, step: StepContext) -> Tensor:
        """Return the mean loss of this rank's sequences, 0 where it is not computed here."""
        inputs, targets = batch
        losses: list[Tensor] = []
        begun = time.perf_counter_ns()
        self._schedule.step(
            *((inputs,) if self._share.has_first else ()),
            target=targets if self._share.has_last else None,
            losses=losses if self._share.has_last else None,
            return_outputs=False,
        )
        self._busy.wall_ns += time.perf_counter_ns() - begun
        return (
            torch.stack(losses).detach().mean()
            if losses
            else inputs.new_zeros((), dtype=torch.float32)
        )


class PlainPasses:
    """One micro-batch after the other, gradients exchanged on the last."""

    def __init__(self, share: Share, microbatches: int) -> None:
        self._module = share.modules[0]
        self._microbatches = microbatches

    def run(self, batch: Batch, step: StepContext) -> Tensor:
        """Return the mean loss of this rank's sequences."""
        inputs, targets = (tensor.chunk(self._microbatches) for tensor in batch)
        total = batch[0].new_zeros((), dtype=torch.float32)
        for number, (part, target) in enumerate(zip(inputs, targets, strict=True), start=1):
            total += self._one(part, target, step, last=number == self._microbatches)
        return total

    def _one(self, inputs: Tensor, targets: Tensor, step: StepContext, *, last: bool) -> Tensor:
        module = self._module
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(last)
        held = isinstance(module, DistributedDataParallel) and not last
        with module.no_sync() if held else nullcontext():  # type: ignore[operator]
            with step.phase("forward"):
                loss = next_byte_loss(module(inputs), targets) / self._microbatches
            with step.phase("backward"):
                loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
