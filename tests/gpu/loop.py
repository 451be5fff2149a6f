"""A rank of a DistributedDataParallel loop with a fault on its device or on its host.

    torchrun --nproc-per-node 2 -m tests.gpu.loop JOB KIND FAULT RANK STEP

Gloo reduces the gradients, as several ranks share one card and NCCL refuses that. `FAULT`:
`none`, `slow-device` (longer kernels in forward), `late-host` (the host sleeps before forward) or
`stuck-device` (a kernel that outlasts the check).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch
from tests.gpu.model import Layers
from tests.gpu.place import Place, cycles_per_second

STEPS, TOKENS, READ_EVERY = 4000, 512, 10
FORWARD_SECONDS, STUCK_SECONDS, LATE_SECONDS = 0.02, 60.0, 0.12
LONGER = {"slow-device": 4.0, "stuck-device": STUCK_SECONDS / FORWARD_SECONDS}
"""Factors by which the faults lengthen kernels."""


class Net(torch.nn.Module):
    """Layers, and kernels of stated lengths before them."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.seconds = place, FORWARD_SECONDS
        self.inner = Layers(256, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """A tensor of the shape of `inputs`."""
        self.place.spin(self.seconds)
        outputs: torch.Tensor = self.inner(inputs)
        return outputs


def main() -> None:
    """Train until ended."""
    job, kind, fault, rank, step_of_fault = sys.argv[1:6]
    place = Place(kind)
    dist.init_process_group("gloo")
    if place.is_gpu:
        torch.cuda.set_device(0)
        cycles_per_second()
    hit = dist.get_rank() == int(rank) and fault != "none"
    torch.manual_seed(0)
    net = Net(place).to(kind)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watch = Watch.from_env(job=job)
    watch.attach(model=model, optimizer=optimizer)
    for number in range(STEPS):
        with watch.step(tokens=TOKENS):
            if hit and number == int(step_of_fault):
                Path(os.environ["GPU_FAULT_LOG"]).write_text(repr(time.time()))
                net.seconds *= LONGER.get(fault, 1.0)
            if hit and fault == "late-host" and number >= int(step_of_fault):
                time.sleep(LATE_SECONDS)
            inputs = torch.randn(64, 256).to(kind, non_blocking=True)
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if number % READ_EVERY == 0:
                loss.item()


if __name__ == "__main__":
    main()
