"""AdamW over all stages on a rank, with weight decay on matrices only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from stepwatch.trainer.config.options import OptimizerOptions

BETAS = (0.9, 0.95)
"""From Llama (https://arxiv.org/abs/2302.13971, section 2.3)."""


def build_optimizer(modules: Sequence[nn.Module], options: OptimizerOptions) -> torch.optim.AdamW:
    """Build the optimizer; `set_rate` sets its learning rate before every step."""
    parameters = [p for module in modules for p in module.parameters()]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=options.lr, betas=BETAS)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter group the same learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate
