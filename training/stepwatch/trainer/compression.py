"""Compressed gradients for replicated data parallelism, by torch's own communication hooks."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel

POWERSGD_RANK = 4
POWERSGD_START = 10
"""Steps of plain all-reduce before compression; PowerSGD needs at least 2 with error feedback."""


def compress(module: DistributedDataParallel, kind: str, group: dist.ProcessGroup) -> None:
    """Register the hook for `bf16` or `powersgd` on a replicated module; `none` does nothing."""
    if kind == "bf16":
        module.register_comm_hook(group, default_hooks.bf16_compress_hook)
    elif kind == "powersgd":
        state = powersgd.PowerSGDState(
            process_group=group,
            matrix_approximation_rank=POWERSGD_RANK,
            start_powerSGD_iter=POWERSGD_START,
        )
        module.register_comm_hook(state, powersgd.powerSGD_hook)
