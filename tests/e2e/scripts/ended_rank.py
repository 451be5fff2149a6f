"""Trains on two ranks until rank 1 ends in the way that the command line names."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

STEP_SECONDS = 0.02


def assertion() -> None:
    assert STEP_SECONDS > 1, "batch of 7 for 8 ranks"


def missing_module() -> None:
    import no_such_module_anywhere  # type: ignore[import-not-found] # noqa: F401


def memory() -> None:
    bytearray(1 << 60)


def full_disk() -> None:
    with open("/dev/full", "wb", buffering=0) as file:  # the kernel's own disk that is full
        file.write(b"checkpoint")


def abort() -> None:
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def killed() -> None:
    os.write(2, b"about to load shard 17\n")
    os.kill(os.getpid(), signal.SIGKILL)


def secret() -> None:
    raise PermissionError(f"https://me:{os.environ['PLANTED_PASSWORD']}@store/x is not ours")


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (assertion, missing_module, memory, full_disk, abort, killed, secret)
}


def main(way: str, until_step: int) -> None:
    dist.init_process_group("gloo")
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10 * until_step):
        if step == until_step and dist.get_rank() == 1:
            WAYS[way]()
        time.sleep(STEP_SECONDS)
        optimizer.zero_grad()
        model(torch.ones(4, 16)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


main(sys.argv[1], int(sys.argv[2]))
