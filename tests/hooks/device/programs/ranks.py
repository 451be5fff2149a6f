"""DistributedDataParallel or FSDP2 on the simulated device, in the three lines that a user adds.

    torchrun --nproc-per-node 2 -m tests.hooks.device.programs.ranks ddp|fsdp OUT

The device of rank 1 is `SLOWER` times as slow. From the third step on both stand until their
host has launched a step: no host is late. Losses go to OUT.RANK, as hexadecimal text.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch
from tests.simulated_device import device

OP_SECONDS, LINK_SECONDS, SLOWER = 5e-4, 2e-3, 3.0
STEPS, WIDTH, READ_EVERY = 12, 32, 5
HELD_FROM = 2
"""DistributedDataParallel itself waits for the device in the second step, with its new buckets."""


class Net(nn.Module):
    """Blocks in a list, as a transformer has them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return a tensor of the shape of `inputs`."""
        for block in self.blocks:
            inputs = torch.relu(block(inputs))
        return inputs


def build(kind: str) -> Any:
    """The model, distributed."""
    torch.manual_seed(0)
    model = Net().to("sim")
    if kind == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def main() -> None:
    """Train, and write the losses that were read."""
    device.load()
    device.set_default_seconds(OP_SECONDS)
    device.set_link(LINK_SECONDS)
    dist.init_process_group("cpu:gloo,sim:simccl")
    rank = dist.get_rank()
    device.set_slow(SLOWER if rank == 1 else 1.0)
    model = build(sys.argv[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = Watch.from_env(job=sys.argv[1])
    watch.attach(model=model, optimizer=optimizer)
    source = torch.Generator().manual_seed(rank)
    losses: list[str] = []
    for number in range(STEPS):
        with watch.step():
            device_hold = device.Hold()
            with device_hold if number >= HELD_FROM else nullcontext():
                inputs = torch.randn(8, WIDTH, generator=source).to("sim", non_blocking=True)
                loss = model(inputs).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            if device_hold.host_waited:
                raise RuntimeError("the host waited for its device")
            if number % READ_EVERY == 0:
                losses.append(float.hex(loss.item()))
    torch.accelerator.synchronize()
    time.sleep(0.05)
    watch.close()
    Path(f"{sys.argv[2]}.{rank}").write_text("\n".join(losses))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
