"""Gradient compression for DDP: bfloat16 or PowerSGD."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel

POWERSGD_RANK = 4
POWERSGD_START = 10
"""Plain all-reduce steps before compression; PowerSGD needs at least 2 with error feedback."""


def average_in_bf16(group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Average a bucket in bfloat16, which halves the bytes to send.

    torch has a similar hook, but only for NCCL and XCCL.
    """
    gradients: Tensor = bucket.buffer()
    sent = gradients.to(torch.bfloat16).div_(group.size())
    work = dist.all_reduce(sent, group=group, async_op=True)

    def restore(future: torch.futures.Future[list[Tensor]]) -> Tensor:
        gradients.copy_(future.value()[0])
        return gradients

    averaged: torch.futures.Future[Tensor] = work.get_future().then(restore)
    return averaged


def compress(module: DistributedDataParallel, kind: str, group: dist.ProcessGroup) -> None:
    """Register the communication hook for `bf16` or `powersgd`; `none` registers nothing."""
    if kind == "bf16":
        # DDP compares a hook's annotations with types, but here annotations are strings. A lambda
        # has none.
        module.register_comm_hook(group, lambda state, bucket: average_in_bf16(state, bucket))
    elif kind == "powersgd":
        state = powersgd.PowerSGDState(
            process_group=group,
            matrix_approximation_rank=POWERSGD_RANK,
            start_powerSGD_iter=POWERSGD_START,
        )
        module.register_comm_hook(state, powersgd.powerSGD_hook)
