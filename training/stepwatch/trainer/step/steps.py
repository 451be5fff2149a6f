"""One training step, from batch to updated parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from stepwatch.faults import Injector
from stepwatch.hooks import Watch
from stepwatch.hooks.context_managers import StepContext
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.loader import Batch
from stepwatch.trainer.model.learning_rate import rate_at
from stepwatch.trainer.model.optimizer import set_rate
from stepwatch.trainer.parallel.local_model import LocalModel
from stepwatch.trainer.parallel.runtime import Runtime

from .clip import local_gradients, redistribute_gradients, scale_gradients, squared_norm_share
from .passes import Passes
from .reduce_stats import ReducedStats, StatsReducer


@dataclass(frozen=True)
class Outcome:
    """A step's result, equal on all ranks.

    `loss` in nats, `grad_norm` before clipping, `rate` the learning rate, `updated` whether the
    parameters changed; `stop` whether any rank received SIGTERM, `saving` whether any rank still
    writes a checkpoint.
    """

    loss: float
    grad_norm: float
    rate: float
    updated: bool
    stop: bool
    saving: bool


def _inject_into(module: nn.Module, injector: Injector, steps: Steps) -> None:
    def inject_forward(_module: nn.Module, _inputs: object) -> None:
        injector.reach("forward", steps.number)

    module.register_forward_pre_hook(inject_forward)
    injector.poison(module, lambda: steps.number)


class Steps:
    """Runs steps; `number` is the current step, counted from the start of the job."""

    def __init__(
        self,
        *,
        options: Options,
        runtime: Runtime,
        model: LocalModel,
        passes: Passes,
        watch: Watch,
        injector: Injector,
    ) -> None:
        self.number = 0
        self._options = options
        self._runtime = runtime
        self._model = model
        self._passes = passes
        self._injector = injector
        self._parameters = list(model.named_parameters().values())
        shape = runtime.coordinates.shape
        self._stats = StatsReducer(runtime, watch, injector, shape.data_ranks * shape.tp)
        for stage in model.stages:
            _inject_into(stage, injector, self)

    def run(
        self, number: int, batch: Batch, step: StepContext, *, stop: bool, saving: bool
    ) -> Outcome:
        """Train on one batch.

        Args:
            number: the step's number.
            batch: this rank's inputs and targets, on the host.
            step: the step as the hooks record it.
            stop: whether this rank received SIGTERM.
            saving: whether this rank still writes a checkpoint.
        """
        self.number = number
        self._injector.reach("step", number)
        inputs, targets = (tensor.to(self._runtime.device, non_blocking=True) for tensor in batch)
        loss = self._passes.run((inputs, targets), step)
        self._injector.reach("backward", number)
        with step.phase("optimizer"):
            redistribute_gradients(self._parameters)
            gradients = local_gradients(self._parameters)
            squares = squared_norm_share(gradients, self._runtime.stage_ranks, self._runtime.device)
            step.record(grad_norm_share=squares)
            self._injector.reach("collective", number)
            stats = self._stats.run(number, loss, squares, stop=stop, saving=saving)
            outcome = self._update(number, gradients, stats)
        step.record(loss=outcome.loss, grad_norm=outcome.grad_norm)
        return outcome

    def _update(
        self, number: int, gradients: list[tuple[torch.Tensor, torch.Tensor]], stats: ReducedStats
    ) -> Outcome:
        options = self._options.optimizer
        self._injector.reach("optimizer", number)
        # The host's only wait for the device: whether to update depends on these values.
        loss, norm, stop, saving = torch.stack(
            (stats.loss, stats.norm, stats.stop, stats.saving)
        ).tolist()
        finite = math.isfinite(loss) and math.isfinite(norm)
        rate = rate_at(number, self._options.run.steps, options)
        updated = finite or options.nonfinite == "apply"
        if updated:
            if options.clip > 0:
                scale_gradients(gradients, stats.norm, options.clip)
            set_rate(self._model.optimizer, rate)
            self._model.optimizer.step()
            self._injector.transform("parameters", number, self._parameters)
        self._model.optimizer.zero_grad(set_to_none=True)
        return Outcome(
            loss=loss,
            grad_norm=norm,
            rate=rate,
            updated=updated,
            stop=stop > 0,
            saving=saving > 0,
        )
