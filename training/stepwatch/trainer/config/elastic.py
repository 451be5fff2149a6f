"""Fits the mesh to the ranks that an elastic job currently has."""

from __future__ import annotations

import math
from dataclasses import replace

from stepwatch.signals.errors import UsageError

from .mesh import MeshShape
from .options import Options


def fit_mesh(options: Options, world: int) -> MeshShape:
    """Return the configured mesh with its data axes shrunk to `world` ranks; pp and tp stay.

    dp_replicate shrinks first, then dp_shard. The batch stays the same, so each remaining rank
    reads more sequences.

    Raises:
        UsageError: no data axis fits `world`, or it does not divide the batch.
    """
    shape, parallel = options.parallel.mesh, options.parallel
    fixed = shape.pp * shape.tp
    if world == shape.world:
        return shape
    data, remainder = divmod(world, fixed)
    if remainder or parallel.batch % (data * parallel.microbatches):
        raise UsageError(
            f"{world} ranks cannot carry pp={shape.pp}, tp={shape.tp} with --batch "
            f"{parallel.batch} in {parallel.microbatches} micro-batches: change --nodes"
        )
    shards = math.gcd(data, shape.dp_shard)
    return replace(shape, dp_replicate=data // shards, dp_shard=shards)
