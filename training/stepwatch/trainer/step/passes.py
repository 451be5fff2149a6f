"""Forward and backward passes over one batch: by pipeline, or with gradient accumulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks.context_managers import StepContext
from stepwatch.trainer.data.loader import Batch
from stepwatch.trainer.model.decoder import next_byte_loss
from stepwatch.trainer.parallel.busy_time import BusyTime
from stepwatch.trainer.parallel.local_model import LocalModel

if TYPE_CHECKING:
    from stepwatch.trainer.parallel.pipeline import Schedule


class Passes(Protocol):
    """Computes the gradients of one batch's mean loss, into the parameters."""

    def run(self, batch: Batch, step: StepContext) -> Tensor:
        """Return the mean loss over this rank's sequences, 0 on ranks without the last stage."""
        ...

    def evaluate(self, batch: Batch) -> Tensor:
        """Return the same loss by forward alone; call it without gradients."""
        ...


class PipelinePasses:
    """Runs all micro-batches by torch's pipeline schedule."""

    def __init__(self, model: LocalModel, schedule: Schedule, busy: BusyTime) -> None:
        self._model = model
        self._schedule = schedule
        self._busy = busy

    def run(self, batch: Batch, step: StepContext) -> Tensor:
        """Return the mean loss over this rank's sequences, 0 on ranks without the last stage."""
        begun = time.perf_counter_ns()
        loss = self._through(self._schedule.step, batch)
        self._busy.wall_ns += time.perf_counter_ns() - begun
        return loss

    def evaluate(self, batch: Batch) -> Tensor:
        """Return the same loss by forward alone; the stages' time does not count in the bubble."""
        busy_ns = self._busy.busy_ns
        loss = self._through(self._schedule.eval, batch)
        self._busy.busy_ns = busy_ns
        return loss

    def _through(self, schedule: Callable[..., object], batch: Batch) -> Tensor:
        inputs, targets = batch
        losses: list[Tensor] = []
        schedule(
            *((inputs,) if self._model.has_first else ()),
            target=targets if self._model.has_last else None,
            losses=losses if self._model.has_last else None,
            return_outputs=False,
        )
        return (
            torch.stack(losses).detach().mean()
            if losses
            else inputs.new_zeros((), dtype=torch.float32)
        )


class PlainPasses:
    """Runs one micro-batch after the other; the last one reduces the gradients."""

    def __init__(self, model: LocalModel, microbatches: int) -> None:
        self._module = model.modules[0]
        self._microbatches = microbatches

    def run(self, batch: Batch, step: StepContext) -> Tensor:
        """Return the mean loss over this rank's sequences."""
        inputs, targets = (tensor.chunk(self._microbatches) for tensor in batch)
        total = batch[0].new_zeros((), dtype=torch.float32)
        for number, (part, target) in enumerate(zip(inputs, targets, strict=True), start=1):
            total += self._run_microbatch(part, target, step, last=number == self._microbatches)
        return total

    def evaluate(self, batch: Batch) -> Tensor:
        """Return the mean loss over this rank's sequences by forward alone."""
        parts = zip(*(tensor.chunk(self._microbatches) for tensor in batch), strict=True)
        losses = [next_byte_loss(self._module(inputs), targets) for inputs, targets in parts]
        return torch.stack(losses).mean()

    def _run_microbatch(
        self, inputs: Tensor, targets: Tensor, step: StepContext, *, last: bool
    ) -> Tensor:
        module = self._module
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(last)
        accumulating = isinstance(module, DistributedDataParallel) and not last
        with module.no_sync() if accumulating else nullcontext():  # type: ignore[operator]
            with step.phase("forward"):
                loss = next_byte_loss(module(inputs), targets) / self._microbatches
            with step.phase("backward"):
                loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
