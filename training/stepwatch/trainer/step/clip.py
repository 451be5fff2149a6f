"""The gradient norm over the whole mesh, and clipping to it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def redistribute_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Redistribute every distributed gradient to its parameter's placements.

    Without FSDP2, tensor parallelism leaves partial sums in the gradients of replicated norms.
    """
    for parameter in parameters:
        grad = parameter.grad
        if (
            isinstance(parameter, DTensor)
            and isinstance(grad, DTensor)
            and grad.placements != parameter.placements
        ):
            parameter.grad = grad.redistribute(placements=parameter.placements)


def _copies(tensor: Tensor, stage_ranks: int) -> float:
    """Return how many ranks in the stage hold the same piece of `tensor`."""
    if not isinstance(tensor, DTensor):
        return float(stage_ranks)
    pieces = 1
    for size, placement in zip(tensor.device_mesh.shape, tensor.placements, strict=True):
        # `is_shard()` is false for FSDP2's strided shard over tensor parallelism.
        pieces *= 1 if placement.is_replicate() else size
    return stage_ranks / pieces


def local_gradients(parameters: Iterable[nn.Parameter]) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of a gradient and this rank's piece, for each parameter with a gradient."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return [(g, g.to_local() if isinstance(g, DTensor) else g) for g in grads]


def squared_norm_share(
    gradients: Iterable[tuple[Tensor, Tensor]], stage_ranks: int, device: torch.device
) -> Tensor:
    """Return this rank's share of the squared norm, a float64 scalar; all ranks' shares sum to it.

    Args:
        gradients: pairs of a gradient and its local piece (`local_gradients`).
        stage_ranks: ranks that hold the same pipeline stage.
    """
    total = torch.zeros((), dtype=torch.float64, device=device)
    for gradient, local in gradients:
        if local.numel():
            norm = torch.linalg.vector_norm(local, dtype=torch.float32)
            total += norm.double().square() / _copies(gradient, stage_ranks)
    return total


def scale_gradients(gradients: Iterable[tuple[Tensor, Tensor]], norm: Tensor, limit: float) -> None:
    """Scale gradients in place so that their global `norm` is at most `limit`; no host read."""
    factor = (limit / (norm + 1e-6)).clamp(max=1.0).float()
    for _, local in gradients:
        local.mul_(factor.to(local.dtype))
