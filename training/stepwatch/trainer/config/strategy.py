"""Chooses the torch mechanism for a mesh's data axes: DDP or FSDP2."""

from __future__ import annotations

from .options import Options

SPLIT_BACKWARD = ("zero-bubble", "zbv")
"""Schedules that compute weight gradients later than input gradients."""


def splits_backward(options: Options) -> bool:
    """Return whether the pipeline computes weight gradients later than input gradients."""
    return options.parallel.mesh.pp > 1 and options.parallel.schedule in SPLIT_BACKWARD


def uses_ddp(options: Options) -> bool:
    """Return whether DistributedDataParallel keeps the replicas equal.

    FSDP2 with one-rank shards replaces it in two cases. Under tensor parallelism, DDP's buckets
    cannot flatten the parameters. With a split backward, DDP's hooks run before the weight
    gradients exist, and the replicas drift apart without an error.
    """
    mesh = options.parallel.mesh
    plain = mesh.dp_replicate > 1 and mesh.dp_shard == 1 and mesh.tp == 1
    return plain and not splits_backward(options)


def uses_fsdp(options: Options) -> bool:
    """Return whether FSDP2 shards or replicates the parameters (HSDP if both)."""
    return options.parallel.mesh.data_ranks > 1 and not uses_ddp(options)
