"""Data and tensor parallelism by hand, as small trainers write them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.trainers.programs.model import Block, LanguageModel


class DataParallel:
    """Reduces each gradient during backward while `enabled`."""

    def __init__(self, model: nn.Module, group: dist.ProcessGroup) -> None:
        self.enabled = False
        self._group, self._running = group, list[tuple[Any, Tensor]]()
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self._reduce)  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        """Wait for the pending reductions."""
        for work, gradient in self._running:
            work.wait()
            gradient /= self._group.size()
        self._running.clear()

    def _reduce(self, parameter: Tensor) -> None:
        if self.enabled and parameter.grad is not None:
            work = dist.all_reduce(parameter.grad, group=self._group, async_op=True)
            self._running.append((work, parameter.grad))


class CopyToRanks(torch.autograd.Function):
    """The same input on all ranks: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        """The input."""
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The sum of gradients."""
        total = gradient.contiguous()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class SumOverRanks(torch.autograd.Function):
    """Parts of all ranks are added; each part's gradient is that of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        """The sum."""
        total = x.contiguous().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The gradient."""
        return gradient, None


class Wide(nn.Module):
    """The first layer of a feed-forward network: its own columns."""

    def __init__(self, linear: nn.Linear, group: dist.ProcessGroup, rank: int, world: int) -> None:
        super().__init__()
        self._group = group
        rows = slice(*(shard * linear.out_features // world for shard in (rank, rank + 1)))
        self.weight = nn.Parameter(linear.weight[rows].detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """This rank's columns."""
        copied: Tensor = CopyToRanks.apply(x, self._group)  # type: ignore[no-untyped-call]
        return nn.functional.linear(copied, self.weight)


class Narrow(nn.Module):
    """The second layer: its own rows, added up over the ranks."""

    def __init__(self, linear: nn.Linear, group: dist.ProcessGroup, rank: int, world: int) -> None:
        super().__init__()
        self._group = group
        columns = slice(*(shard * linear.in_features // world for shard in (rank, rank + 1)))
        self.weight = nn.Parameter(linear.weight[:, columns].detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """The whole result."""
        part = nn.functional.linear(x, self.weight)
        total: Tensor = SumOverRanks.apply(part, self._group)  # type: ignore[no-untyped-call]
        return total


def share_width(model: LanguageModel, group: dist.ProcessGroup, rank: int, world: int) -> None:
    """Divide the feed-forward networks of a model among the ranks."""
    for block in model.blocks:
        assert isinstance(block, Block)
        parts: Any = block
        parts.wide = Wide(block.wide, group, rank, world)
        parts.narrow = Narrow(block.narrow, group, rank, world)
