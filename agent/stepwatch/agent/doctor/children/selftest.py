"""A child: compute, copy and fill memory on each device, and all-reduce between local ranks.

`python -m stepwatch.agent.doctor.children.selftest SECONDS` prints one JSON line per device and
one for the all-reduce. Rates are per second; `wrong` counts incorrect results.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from .asking import NOT_INSTALLED

SIZE = 1024
CHUNK_BYTES = 64 << 20
MOST_CPU_BYTES = 512 << 20
"""Maximum host memory to test; a job may be waiting for it."""
DEVICE_RATIO = 0.8
"""Ratio to the device's free memory: drivers and libraries need the remainder."""
REDUCED_BYTES = 16 << 20
MOST_RANKS = 8
PATTERNS = (0x00, 0xFF, 0x55, 0xAA)
"""Each bit is written as 0 and as 1, next to equal and to different neighbours."""
TOGETHER_SECONDS = 30.0


class Rates(NamedTuple):
    """One device's rates and errors.

    `wrong` products differ from the first one, `wrong_bytes` from the written bytes.
    """

    device: str
    flops: float
    copied: float
    wrong: int
    tested_bytes: int
    wrong_bytes: int


def rates_of(torch: Any, name: str, seconds: float) -> Rates:
    """Compute for half the time, copy for a quarter, and test memory for a quarter."""
    device = torch.device(name)
    flops, wrong = _products(torch, device, seconds / 2)
    copied = _copies(torch, device, seconds / 4)
    tested, wrong_bytes = _memory(torch, device, seconds / 4)
    return Rates(name, flops, copied, wrong, tested, wrong_bytes)


def _products(torch: Any, device: Any, seconds: float) -> tuple[float, int]:
    """Return operations per second, and the number of products that differ from the first."""
    torch.manual_seed(1)
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    multiplicand, multiplier = (
        torch.randn(SIZE, SIZE, device=device, dtype=kind) for _ in range(2)
    )
    first = multiplicand @ multiplier
    wrong = 0

    def multiply() -> None:
        nonlocal wrong
        wrong += not torch.equal(multiplicand @ multiplier, first)

    return _per_second(torch, device, multiply, seconds) * 2 * SIZE**3, wrong


def _copies(torch: Any, device: Any, seconds: float) -> float:
    """Return the bytes read and written per second."""
    block = torch.empty(SIZE * SIZE * 16, device=device, dtype=torch.uint8)
    target = torch.empty_like(block)
    times = _per_second(torch, device, lambda: target.copy_(block), seconds)
    return times * 2 * int(block.numel())


def _memory(torch: Any, device: Any, seconds: float) -> tuple[int, int]:
    """Return tested bytes and wrong bytes, in as many chunks as memory and time allow."""
    chunks, wrong, begins = [], 0, time.monotonic()
    for _ in range(_room(torch, device) // CHUNK_BYTES):
        chunk = torch.empty(CHUNK_BYTES, device=device, dtype=torch.uint8)
        chunks.append(chunk)  # kept, so that the next chunk has another address
        for pattern in PATTERNS:
            chunk.fill_(pattern)
            wrong += int(torch.count_nonzero(chunk != pattern))
        if time.monotonic() - begins > seconds:
            break
    return len(chunks) * CHUNK_BYTES, wrong


def _room(torch: Any, device: Any) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * DEVICE_RATIO)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(CHUNK_BYTES, min(MOST_CPU_BYTES, free // 4))


def _per_second(torch: Any, device: Any, work: Callable[[], object], seconds: float) -> float:
    """Return calls to `work` per second; the first call is a warm-up."""
    work()
    times, begins = 0, time.monotonic()
    while time.monotonic() - begins < seconds or not times:
        for _ in range(4):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times += 4
    return times / (time.monotonic() - begins)


def reduce_together(rank: int, ranks: int, port: int, seconds: float) -> None:
    """Run one rank in a group that sums numbers with a known sum; rank 0 prints the result.

    The numbers are integers, so their sum is exact in any order.
    """
    import torch
    import torch.distributed as dist

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=TOGETHER_SECONDS),
    )
    times, wrong, spent = 0, 0, 0.0
    going = torch.ones(1, device=device)
    begins = time.monotonic()
    while int(going.item()):
        values = torch.full((REDUCED_BYTES // 4,), float(rank + 1), device=device)
        starts = time.monotonic()
        dist.all_reduce(values)
        wrong += int(torch.count_nonzero(values != ranks * (ranks + 1) / 2))
        if times:  # the first one opens the connections
            spent += time.monotonic() - starts
        times += 1
        going.fill_(float(time.monotonic() - begins < seconds or times < 3))
        dist.broadcast(going, 0)
    total = torch.tensor([float(wrong)], device=device)
    dist.all_reduce(total)
    if rank == 0:
        # Each rank sends and receives 2 (n - 1) / n times the buffer.
        moved = (times - 1) * REDUCED_BYTES * 2 * (ranks - 1) / ranks
        line = {"ranks": ranks, "backend": "nccl" if cuda else "gloo", "wrong": int(total.item())}
        print(json.dumps({**line, "bytes_per_second": moved / spent}), flush=True)
    dist.destroy_process_group()


def main(seconds: float) -> int:
    """Test all devices, or the CPU if there is no device."""
    try:
        import torch
        from torch.multiprocessing.spawn import spawn
    except ImportError:
        return NOT_INSTALLED
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [f"cuda:{number}" for number in range(count)] or ["cpu"]
    for name in devices:
        rates = rates_of(torch, name, seconds * 0.75 / len(devices))
        print(json.dumps(rates._asdict()), flush=True)
    ranks = min(max(count, 2), MOST_RANKS)
    if count != 1:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = (ranks, port, seconds / 4)
        spawn(reduce_together, args=words, nprocs=ranks)  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
