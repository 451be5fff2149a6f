"""A tiny DistributedDataParallel loop with hooks, as any release of them is used."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch


def main(job: str, steps: int) -> None:
    """Train `steps` steps of 50 ms or more."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    watch = Watch.from_env(job=job)
    watch.attach(model=model, optimizer=optimizer)
    for _ in range(steps):
        with watch.step(tokens=64) as step:
            with step.phase("forward"):
                loss = model(torch.randn(8, 64)).square().mean()
            with step.phase("backward"):
                loss.backward()
            with step.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            step.record(loss=loss)
            time.sleep(0.05)
    watch.finish()
    watch.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
