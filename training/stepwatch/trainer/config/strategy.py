"""Which mechanism of torch carries the data axes of a mesh."""

from __future__ import annotations

from .options import Options

SPLIT_BACKWARD = ("zero-bubble", "zbv")
"""Schedules that compute weight gradients apart from input gradients."""


def splits_backward(options: Options) -> bool:
    """Whether the pipeline computes weight gradients apart from input gradients."""
    return options.parallel.mesh.pp > 1 and options.parallel.schedule in SPLIT_BACKWARD


def uses_ddp(options: Options) -> bool:
    """Whether replicas are kept equal by DistributedDataParallel.

    Not under tensor parallelism, whose parameters its buckets cannot flatten, and not where
    backward is split: its hooks then fire before the weight gradients are there, and replicas
    drift apart without an error. Both are carried by FSDP2 with shards of one rank instead.
    """
    mesh = options.parallel.mesh
    plain = mesh.dp_replicate > 1 and mesh.dp_shard == 1 and mesh.tp == 1
    return plain and not splits_backward(options)


def uses_fsdp(options: Options) -> bool:
    """Whether FSDP2 shards or replicates the parameters (HSDP where both)."""
    return options.parallel.mesh.data_ranks > 1 and not uses_ddp(options)
