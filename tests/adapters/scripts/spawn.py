"""Ranks started by torch's own `spawn`, as in its tutorial: their processes have no number."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

STEPS = 3


def train(rank: int, world: int, port: str) -> None:
    """Train one rank; the last one may raise at its end."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", port
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()
    if rank == world - 1:
        raise ValueError("the last rank is unhappy")


if __name__ == "__main__":
    words = {"args": (2, sys.argv[1]), "nprocs": 2, "start_method": sys.argv[2]}
    start: Any = vars(mp)["start_processes"]
    ranks = start(train, join=False, **words)
    for process in ranks.processes:
        process.join()  # `ranks.join` ends the others once one has failed
    ranks.join()
