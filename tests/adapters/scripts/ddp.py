"""A DistributedDataParallel script without stepwatch."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SLOW_RANK, SLOW_SECONDS = int(os.environ.get("SLOW_RANK", "-1")), 0.04


class Block(torch.nn.Module):
    """Two layers and a batch norm, whose buffers DDP broadcasts in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 64)
        self.norm = torch.nn.BatchNorm1d(64)
        self.last = torch.nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, 8)."""
        if self.training and dist.get_rank() == SLOW_RANK:
            time.sleep(SLOW_SECONDS)
        hidden: torch.Tensor = self.last(torch.relu(self.norm(self.first(x))))
        return hidden


def main(folder: Path, epochs: int) -> None:
    """Train, evaluate and save; write this rank's losses to `folder`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(288, 32), torch.randint(0, 8, (288,)))
    sampler: DistributedSampler[object] = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1)
    model = DistributedDataParallel(Block())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()  # type: ignore[no-untyped-call]
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            for inputs, _ in loader:
                model(inputs)
        total = torch.tensor([losses[-1]])
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), folder / "model.pt")
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
