"""An evaluation: forward passes over held-out text, without gradients, between steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from stepwatch.hooks import Watch
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.held_out import HeldOut
from stepwatch.trainer.data.loader import Batch
from stepwatch.trainer.parallel.local_model import LocalModel
from stepwatch.trainer.parallel.runtime import Runtime

from .passes import Passes


@dataclass(frozen=True)
class Evaluated:
    """A completed evaluation: steps completed before it, mean loss in nats, seconds, batches, and
    whether the trainer marked it with a phase.
    """

    evaluated: int
    loss: float
    seconds: float
    batches: int
    marked: bool


class Evaluator:
    """Evaluates after each step for which an evaluation is due; draws no random number."""

    def __init__(
        self,
        *,
        options: Options,
        runtime: Runtime,
        model: LocalModel,
        passes: Passes,
        watch: Watch,
        held_out: HeldOut | None,
    ) -> None:
        self._options = options.evaluation
        self._runtime = runtime
        self._model = model
        self._passes = passes
        self._watch = watch
        self._held_out = held_out
        shape = runtime.coordinates.shape
        self._copies = shape.data_ranks * shape.tp

    def run(self, completed_steps: int, stop: Callable[[], bool]) -> Evaluated | None:
        """Evaluate if it is due; return None if it is not due or any rank has to `stop`."""
        every, unmarked_every = self._options.eval_every, self._options.eval_unmarked_every
        if self._held_out is None or completed_steps % every:
            return None
        marked = not unmarked_every or bool(completed_steps // every % unmarked_every)
        begun = time.monotonic()
        with self._phase(marked), torch.no_grad():
            losses = self._losses(self._held_out, stop)
        # Otherwise FSDP2 keeps its root's full parameters until the next backward.
        for module in self._model.modules:
            if isinstance(module, FSDPModule):
                module.reshard()
        if len(losses) < self._options.eval_batches:
            return None
        seconds = time.monotonic() - begun
        return Evaluated(completed_steps, sum(losses) / len(losses), seconds, len(losses), marked)

    def _phase(self, marked: bool) -> AbstractContextManager[object]:
        return self._watch.phase("eval") if marked else nullcontext()

    def _losses(self, held_out: HeldOut, stop: Callable[[], bool]) -> list[float]:
        losses = []
        for batch in held_out:
            loss, stops = self._evaluate_batch(batch, stop())
            if stops:
                break
            losses.append(loss)
        return losses

    def _evaluate_batch(self, batch: Batch, stop: bool) -> tuple[float, bool]:
        inputs, targets = (tensor.to(self._runtime.device) for tensor in batch)
        share = self._passes.evaluate((inputs, targets)).double() / self._copies
        sums = torch.stack((share, share.new_tensor(float(stop))))
        if self._runtime.world > 1:
            dist.all_reduce(sums)
        loss, stops = sums.tolist()
        return loss, stops > 0
