"""A small model and an optimizer whose kernels take stated device time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.simulated_device import device as sim

WIDTH, CLASSES = 16, 4


class Kernels:
    """Kernel durations of a block in seconds; each call is one launch."""

    def __init__(self, forward: Callable[[], float], backward: Callable[[], float]) -> None:
        self.forward, self.backward = forward, backward


class _Compute(torch.autograd.Function):
    """Passes its input on, after one kernel in forward and one, for its gradient, in backward."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, kernels: Kernels) -> Tensor:
        ctx.kernels = kernels
        sim.kernel(kernels.forward())
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        sim.kernel(ctx.kernels.backward())
        return gradients[0].clone(), None


class Block(torch.nn.Module):
    """A layer and its kernels."""

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, WIDTH)
        self.kernels = kernels

    def forward(self, inputs: Tensor) -> Tensor:
        """Run one kernel, then the layer."""
        computed: Tensor = _Compute.apply(inputs, self.kernels)  # type: ignore[no-untyped-call]
        return torch.tanh(self.layer(computed)) + inputs


class Model(torch.nn.Module):
    """Blocks in a row; with `checkpointing`, backward computes them again.

    The host calls `on_host` in each forward, after it has enqueued the first block.
    """

    def __init__(
        self, blocks: list[Kernels], on_host: Callable[[], None], *, checkpointing: bool
    ) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(kernels) for kernels in blocks)
        self.head = torch.nn.Linear(WIDTH, CLASSES)
        self.checkpointing = checkpointing
        self.on_host = on_host

    def forward(self, inputs: Tensor) -> Tensor:
        """Return class scores."""
        for number, block in enumerate(self.blocks):
            if number == 1:
                self.on_host()
            if self.checkpointing and self.training:
                inputs = checkpoint(block, inputs, use_reentrant=False)
            else:
                inputs = block(inputs)
        scores: Tensor = self.head(inputs)
        return scores


class Optimizer(torch.optim.SGD):
    """SGD whose step has one kernel of `seconds` in addition to its own small ones."""

    def __init__(self, parameters: Any, seconds: Callable[[], float]) -> None:
        super().__init__(parameters, lr=0.1)
        self._seconds = seconds

    def step(self, closure: Any = None) -> Any:
        """Update the parameters."""
        result = super().step(closure)
        sim.kernel(self._seconds())
        return result
