"""One rank's part of the model: its stages, divided by the mesh, and the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.placement import layers_of_stage, stage_count, stages_of_rank
from stepwatch.trainer.config.sizes import ModelSize, model_sizes
from stepwatch.trainer.config.strategy import uses_fsdp
from stepwatch.trainer.model.activation_checkpointing import checkpoint_activations
from stepwatch.trainer.model.decoder import DecoderStage
from stepwatch.trainer.model.initial_weights import initialise
from stepwatch.trainer.model.optimizer import build_optimizer

from .parallelise import parallelise
from .runtime import Runtime


@dataclass(frozen=True)
class LocalModel:
    """One rank's stages and their optimizer.

    `stages` own the parameters under their global names. `modules` holds the callable for each
    stage: the stage itself, or the DDP module around it. `stage_count` counts the whole pipeline.
    """

    size: ModelSize
    stage_indices: list[int]
    stage_count: int
    stages: list[DecoderStage]
    modules: list[nn.Module]
    optimizer: torch.optim.Optimizer

    @property
    def has_first(self) -> bool:
        """Return whether this rank holds the first stage, which takes the bytes."""
        return 0 in self.stage_indices

    @property
    def has_last(self) -> bool:
        """Return whether this rank holds the last stage, which computes the loss."""
        return self.stage_count - 1 in self.stage_indices

    def named_parameters(self) -> dict[str, nn.Parameter]:
        """Return this rank's parameters by global name."""
        return {name: p for stage in self.stages for name, p in stage.named_parameters()}


def autocast_dtype(options: Options) -> torch.dtype | None:
    """Return autocast's dtype; None in fp32, and if FSDP2 casts instead."""
    low = options.model.precision == "bf16"
    return torch.bfloat16 if low and not uses_fsdp(options) else None


def _stage(index: int, count: int, size: ModelSize, options: Options) -> DecoderStage:
    stage = DecoderStage(
        size,
        layers_of_stage(size.layers, count, index),
        first=index == 0,
        last=index == count - 1,
        length=options.model.length,
    )
    stage.autocast = autocast_dtype(options)
    initialise(stage, options.run.seed, size.layers)
    checkpoint_activations(stage, options.model.activations)
    return stage


def build_local_model(options: Options, runtime: Runtime) -> LocalModel:
    """Build, initialise and divide this rank's stages."""
    size = model_sizes()[options.model.model]
    schedule, shape = options.parallel.schedule, options.parallel.mesh
    count = stage_count(schedule, shape.pp)
    indices = stages_of_rank(schedule, shape.pp, runtime.coordinates.pp)
    with runtime.device:
        stages = [_stage(index, count, size, options) for index in indices]
    modules = [parallelise(stage, runtime.mesh, options) for stage in stages]
    return LocalModel(
        size=size,
        stage_indices=indices,
        stage_count=count,
        stages=stages,
        modules=modules,
        optimizer=build_optimizer(modules, options.optimizer),
    )
