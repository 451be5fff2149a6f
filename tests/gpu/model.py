"""The model of the checks: layers of one width, each large enough to keep a GPU busy."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from .place import Place


class Layers(nn.Module):
    """Linear layers with an activation between them."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return a tensor of the shape of `inputs`."""
        for layer in self.layers:
            inputs = torch.nn.functional.gelu(layer(inputs))
        return inputs


def layers(place: Place, count: int = 6, width: int = 0) -> Layers:
    """The same weights at each call."""
    torch.manual_seed(0)
    return Layers(width or place.width, count).to(place.kind, place.dtype)


def batches(place: Place, count: int, rows: int = 0, width: int = 0) -> Iterator[Tensor]:
    """The same batches at each call, in memory that a device can copy from by itself."""
    source = torch.Generator().manual_seed(1)
    for _ in range(count):
        batch = torch.randn(rows or place.rows, width or place.width, generator=source)
        yield batch.to(place.dtype).pin_memory() if place.is_gpu else batch
