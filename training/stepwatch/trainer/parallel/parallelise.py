"""Divides one stage over ranks: tensor parallelism, then compilation, then FSDP2 or DDP."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.style import ParallelStyle
from torch.nn.parallel import DistributedDataParallel

from stepwatch.trainer.config.mesh import MeshShape
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.strategy import uses_ddp, uses_fsdp
from stepwatch.trainer.model.decoder import DecoderStage

from .compression import compress

_LAYER_PLAN: dict[str, ParallelStyle] = {
    "attention_norm": SequenceParallel(),
    "attention": PrepareModuleInput(
        input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
    ),
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.output": RowwiseParallel(output_layouts=Shard(1)),
    "feed_forward_norm": SequenceParallel(),
    "feed_forward": PrepareModuleInput(
        input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
    ),
    "feed_forward.gate": ColwiseParallel(),
    "feed_forward.up": ColwiseParallel(),
    "feed_forward.down": RowwiseParallel(output_layouts=Shard(1)),
}
_ENDS_PLAN: dict[str, ParallelStyle] = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


def shard_tensors(stage: DecoderStage, tp: DeviceMesh) -> None:
    """Split matrices over `tp` in place, and hidden states between layers by position."""
    ends = {name: style for name, style in _ENDS_PLAN.items() if getattr(stage, name) is not None}
    parallelize_module(stage, tp, ends)
    for layer in stage.layers.values():
        parallelize_module(layer, tp, _LAYER_PLAN)


def _policy(precision: str) -> MixedPrecisionPolicy:
    if precision == "bf16":
        return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return MixedPrecisionPolicy()


def shard_data(stage: DecoderStage, data: DeviceMesh, precision: str, *, pipelined: bool) -> None:
    """Shard parameters, gradients and optimizer state over `data` in place (1-D or HSDP's 2-D).

    A pipelined stage keeps its parameters gathered between micro-batches.
    """
    policy = _policy(precision)
    for layer in stage.layers.values():
        fully_shard(layer, mesh=data, mp_policy=policy, reshard_after_forward=not pipelined)
    fully_shard(stage, mesh=data, mp_policy=policy, reshard_after_forward=False)


def data_mesh(mesh: DeviceMesh, shape: MeshShape) -> DeviceMesh:
    """Return the mesh axes for FSDP2: dp_shard, or both data axes for HSDP."""
    if shape.dp_replicate > 1:
        return mesh["dp_replicate", "dp_shard"]
    return mesh["dp_shard"]


def _replicate(stage: DecoderStage, mesh: DeviceMesh, compression: str) -> DistributedDataParallel:
    group: dist.ProcessGroup = mesh["dp_replicate"].get_group()
    copy = DistributedDataParallel(
        stage, process_group=group, broadcast_buffers=False, gradient_as_bucket_view=True
    )
    compress(copy, compression, group)
    return copy


def parallelise(stage: DecoderStage, mesh: DeviceMesh, options: Options) -> nn.Module:
    """Divide one stage over the mesh; return the module to call."""
    shape = options.parallel.mesh
    if shape.tp > 1:
        shard_tensors(stage, mesh["tp"])
    if options.model.compile:
        for layer in stage.layers.values():
            layer.compile()
    if uses_fsdp(options):
        data = data_mesh(mesh, shape)
        shard_data(stage, data, options.model.precision, pipelined=shape.pp > 1)
        return stage
    if uses_ddp(options):
        return _replicate(stage, mesh, options.parallel.compression)
    return stage
