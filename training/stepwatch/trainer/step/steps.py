"""One training step, from batch to updated parameters."""

from __future__ import annotations

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
from stepwatch.trainer.parallel.assemble import Share
from stepwatch.trainer.parallel.runtime import Runtime

from .clip import local_gradients, scale_gradients, settle_gradients, squared_share
from .passes import Passes
from .reduce_stats import Agreed, Exchange


@dataclass(frozen=True)
class Outcome:
    """What a step gave: loss in nats, gradient norm before clipping, learning rate, and whether
    the parameters were updated; `stop` and `saving` are what all ranks agreed on."""

    loss: float
    grad_norm: float
    rate: float
    updated: bool
    stop: bool
    saving: bool


def _injecting(module: nn.Module, injector: Injector, steps: Steps) -> None:
    def before(_module: nn.Module, _inputs: object) -> None:
        injector.at("forward", steps.number)

    module.register_forward_pre_hook(before)
    injector.poison(module, lambda: steps.number)


class Steps:
    """Runs steps; `number` is the step under way, counted from the start of the job."""

    def __init__(
        self,
        options: Options,
        runtime: Runtime,
        share: Share,
        passes: Passes,
        watch: Watch,
        injector: Injector,
    ) -> None:
        self.number = 0
        self._options = options
        self._runtime = runtime
        self._share = share
        self._passes = passes
        self._injector = injector
        self._parameters = list(share.named_parameters().values())
        shape = runtime.place.shape
        self._exchange = Exchange(runtime, watch, injector, shape.data_ranks * shape.tp)
        for part in share.parts:
            _injecting(part, injector, self)

    def run(
        self, number: int, batch: Batch, step: StepContext, *, stop: bool, saving: bool
    ) -> Outcome:
        """Train on one batch.

        Args:
            number: of the step.
            batch: this rank's inputs and targets, on the host.
            step: the hooks' view of the step.
            stop, saving: what this rank wants the others to know.
        """
        self.number = number
        self._injector.at("step", number)
        inputs, targets = (tensor.to(self._runtime.device, non_blocking=True) for tensor in batch)
        loss = self._passes.run((inputs, targets), step)
        self._injector.at("backward", number)
        with step.phase("optimizer"):
            settle_gradients(self._parameters)
            gradients = local_gradients(self._parameters)
            squares = squared_share(gradients, self._runtime.stage_ranks, self._runtime.device)
            step.record(grad_norm_share=squares)
            self._injector.at("collective", number)
            agreed = self._exchange.run(number, loss, squares, stop=stop, saving=saving)
            outcome = self._update(number, gradients, agreed)
        step.record(loss=outcome.loss, grad_norm=outcome.grad_norm)
        return outcome

    def _update(
        self, number: int, gradients: list[tuple[torch.Tensor, torch.Tensor]], agreed: Agreed
    ) -> Outcome:
        options = self._options.optimizer
        self._injector.at("optimizer", number)
        # The one place where the host waits for the device: whether to update depends on it.
        loss, norm, stop, saving = torch.stack(
            (agreed.loss, agreed.norm, agreed.stop, agreed.saving)
        ).tolist()
        finite = loss - loss == 0.0 and norm - norm == 0.0
        rate = rate_at(number, self._options.run.steps, options, self._options.parallel.batch)
        updated = finite or options.nonfinite == "apply"
        if updated:
            if options.clip > 0:
                scale_gradients(gradients, agreed.norm, options.clip)
            set_rate(self._share.optimizer, rate)
            self._share.optimizer.step()
            self._injector.transform("parameters", number, self._parameters)
        self._share.optimizer.zero_grad(set_to_none=True)
        return Outcome(loss, norm, rate, updated, stop > 0, saving > 0)
