"""A plain DDP loop without stepwatch; one rank waits for something, or never ends."""

from __future__ import annotations

import socket
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, WAIT_AT = 150, 100


class Net(nn.Module):
    """A small network whose forward takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Wait a little, and compute."""
        time.sleep(0.06)
        out: torch.Tensor = self.body(x)
        return out


class Uploader(threading.Thread):
    """Waits for an answer that never comes."""

    def __init__(self) -> None:
        super().__init__()
        self._server = socket.create_server(("127.0.0.1", 0))

    def run(self) -> None:
        """Send the request and wait."""
        with socket.create_connection(self._server.getsockname()) as peer:
            peer.recv(1)

    def finish(self) -> None:
        """Wait for the last upload."""
        self.join()


def ask_again_later() -> None:
    """A client's back-off: the store answered 503."""
    time.sleep(8.0)


def main(scenario: str) -> None:
    """Train, and wait as `scenario` says."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    uploader = Uploader() if scenario == "uploader" and dist.get_rank() == 0 else None
    if uploader is not None:
        uploader.start()
    for number in range(STEPS):
        loss = net(torch.randn(16, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (scenario, number, dist.get_rank()) == ("back-off", WAIT_AT, 1):
            ask_again_later()
        if (scenario, number, dist.get_rank()) == ("stops", WAIT_AT, 1):
            time.sleep(3600.0)
    dist.barrier()
    if uploader is not None:
        uploader.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
