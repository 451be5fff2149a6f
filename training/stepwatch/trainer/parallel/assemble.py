"""Building this rank's share of the model: its stages, divided, and their optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.placement import layers_of_stage, stage_count, stages_of_rank
from stepwatch.trainer.config.sizes import ModelSize, model_sizes
from stepwatch.trainer.config.strategy import uses_fsdp
from stepwatch.trainer.model.activation_checkpointing import recompute
from stepwatch.trainer.model.decoder import Part
from stepwatch.trainer.model.initial_weights import initialise
from stepwatch.trainer.model.optimizer import build_optimizer

from .parallelise import parallelise
from .runtime import Runtime


@dataclass(frozen=True)
class Share:
    """What one rank trains.

    `parts` own the parameters under their global names; `modules` are the same parts as they are
    called (replicated ones are wrapped).
    """

    size: ModelSize
    stages: list[int]
    stage_count: int
    parts: list[Part]
    modules: list[nn.Module]
    optimizer: torch.optim.Optimizer

    @property
    def has_first(self) -> bool:
        """Whether bytes enter the pipeline here."""
        return 0 in self.stages

    @property
    def has_last(self) -> bool:
        """Whether the loss is computed here."""
        return self.stage_count - 1 in self.stages

    def named_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters of this rank by their global name."""
        return {name: p for part in self.parts for name, p in part.named_parameters()}


def autocast_dtype(options: Options) -> torch.dtype | None:
    """Dtype of autocast; None where FSDP2 casts instead, or nothing does."""
    low = options.model.precision == "bf16"
    return torch.bfloat16 if low and not uses_fsdp(options) else None


def _part(stage: int, count: int, size: ModelSize, options: Options, runtime: Runtime) -> Part:
    with runtime.device:
        part = Part(
            size,
            layers_of_stage(size.layers, count, stage),
            first=stage == 0,
            last=stage == count - 1,
            length=options.model.length,
        )
    part.autocast = autocast_dtype(options)
    initialise(part, options.run.seed, size.layers)
    recompute(part, options.model.activations)
    return part


def assemble(options: Options, runtime: Runtime) -> Share:
    """Build, initialise and divide the stages of this rank."""
    size = model_sizes()[options.model.model]
    schedule, shape = options.parallel.schedule, options.parallel.mesh
    count = stage_count(schedule, shape.pp)
    stages = stages_of_rank(schedule, shape.pp, runtime.place.pp)
    parts = [_part(stage, count, size, options, runtime) for stage in stages]
    modules = [parallelise(part, runtime.mesh, options) for part in parts]
    return Share(size, stages, count, parts, modules, build_optimizer(modules, options.optimizer))
