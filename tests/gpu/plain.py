"""A DistributedDataParallel script on NCCL without stepwatch.

torchrun --nproc-per-node 1 -m tests.gpu.plain KIND LOSSES
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS, ROWS, WIDTH = 24, 64, 512


def main(kind: str, losses: Path) -> None:
    """Train, and write the losses as hexadecimal text."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4))).to(kind)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(STEPS * ROWS, WIDTH)
    loader = DataLoader(TensorDataset(inputs), batch_size=ROWS, pin_memory=kind == "cuda")
    hex_losses = []
    for (batch,) in loader:
        loss = model(batch.to(kind, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        hex_losses.append(float.hex(loss.item()))
    losses.write_text(json.dumps(hex_losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
