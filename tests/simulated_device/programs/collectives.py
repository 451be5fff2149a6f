"""Two ranks' view of the process group: values, and which rank waits for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _coalescing_manager

from tests.simulated_device import device

from .report import error_of, milliseconds, record_event, write

NAME = device.NAME
LINK = 0.03


def full(value: float, count: int = 2) -> Tensor:
    """Return a device tensor of one value."""
    return torch.full((count,), float(value), device=NAME)


def values(rank: int, world: int) -> dict[str, Any]:
    """Call every collective once."""
    results: dict[str, Any] = {}
    dist.all_reduce(total := full(rank + 1))
    dist.all_reduce(mean := full(rank + 1), dist.ReduceOp.AVG)
    dist.broadcast(sent := full(rank), 1)
    dist.reduce(reduced := full(rank + 1), 0)
    results["all_reduce"] = [total[0].item(), mean[0].item()]
    results["rooted"] = [sent[0].item(), reduced[0].item() if rank == 0 else None]
    parts = [full(0, 1) for _ in range(world)]
    dist.all_gather(parts, full(rank, 1))
    dist.all_gather_into_tensor(gathered_tensor := full(0, world), full(rank, 1))
    results["all_gather"] = [[part.item() for part in parts], gathered_tensor.tolist()]
    numbers = torch.arange(float(world), device=NAME)
    dist.reduce_scatter_tensor(share := full(0, 1), numbers)
    dist.reduce_scatter(piece := full(0, 1), list(numbers.chunk(world)))
    results["reduce_scatter"] = [share.item(), piece.item()]
    dist.all_to_all_single(exchanged := full(0, world), numbers + 10 * rank)
    dist.all_to_all(parts, list((numbers + 10 * rank).chunk(world)))
    results["all_to_all"] = [exchanged.tolist(), [part.item() for part in parts]]
    gathered = [full(0, 1) for _ in range(world)] if rank == 0 else None
    dist.gather(full(rank, 1), gathered, 0)
    dist.scatter(share, list(numbers.chunk(world)) if rank == 0 else None, 0)
    results["one_to_all"] = [[part.item() for part in gathered or []], share.item()]
    dist.all_gather_object(objects := [None] * world, {"rank": rank})
    return {**results, "objects": objects}


def coalesce(rank: int) -> dict[str, Any]:
    """Call several collectives as one, in torch's three ways."""
    fast, slow = [full(rank + k) for k in range(3)], [full(rank + k) for k in range(3)]
    with _coalescing_manager(async_ops=True) as manager:
        for tensor in fast:
            dist.all_reduce(tensor)
    manager.wait()
    with _coalescing_manager(device=torch.device(NAME), async_ops=True) as manager:
        for tensor in slow:
            dist.all_reduce(tensor)
    manager.wait()
    received = full(0)
    peers = [
        dist.P2POp(dist.isend, full(rank), 1 - rank),
        dist.P2POp(dist.irecv, received, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(peers):
        work.wait()
    return {
        "fast": [tensor[0].item() for tensor in fast],
        "slow": [tensor[0].item() for tensor in slow],
        "received": received[0].item(),
    }


@contextmanager
def meet() -> Iterator[tuple[torch.Event, device.Hold]]:
    """Hold all devices until their hosts leave; the event passes on all of them at one moment."""
    dist.barrier()
    with device.Hold() as hold:
        dist.all_reduce(full(0))
        yield record_event(), hold


def late_rank(rank: int, begin: Callable[[Tensor], Any]) -> dict[str, float]:
    """Rank 1's device arrives 100 ms late at the operation that `begin` starts; no host is late."""
    tensor = full(rank)
    begin(tensor)  # the first call connects
    with meet() as (start, hold):
        device.kernel(0.11 if rank else 0.01)
        computed = record_event()
        begin(tensor)
        end = record_event()
    return {
        "compute": milliseconds(start, computed),
        "collective": milliseconds(computed, end),
        "host_waited": hold.host_waited,
    }


def stand(rank: int) -> dict[str, Any]:
    """Measure which rank waits, in a collective and in send and receive."""
    device.set_link(LINK)
    figures = {
        "all_reduce": late_rank(rank, dist.all_reduce),
        "async": late_rank(rank, lambda tensor: dist.all_reduce(tensor, async_op=True).wait()),
        "pipeline": late_rank(
            rank, lambda tensor: dist.send(tensor, 0) if rank else dist.recv(tensor, 1)
        ),
    }
    device.set_link(0)
    return figures


def overlap_kernel(rank: int) -> dict[str, float]:
    """Run a collective of 30 ms concurrently with a kernel of 40 ms."""
    device.set_link(LINK)
    with meet() as (start, _):
        work = dist.all_reduce(full(rank), async_op=True)
        device.kernel(0.04)
        work.wait()
        end = record_event()
    figures = {"ms": milliseconds(start, end)}
    device.set_link(0)
    return figures


def slow_link(rank: int) -> dict[str, float]:
    """Delay rank 1's link by 20 ms and 1 us per byte: both ranks wait for it."""
    if rank:
        device.set_link(0.02, 1e6)
    tensor = full(rank, 2500)  # 10 kB; an all-reduce moves each byte twice
    with meet() as (start, _):
        dist.all_reduce(tensor)
        end = record_event()
    figures = {"ms": milliseconds(start, end)}
    device.set_link(0)
    return figures


def two_groups(rank: int, world: int) -> dict[str, Any]:
    """Collectives of 30 ms in two groups overlap; two of one group do not."""
    first, second = (dist.new_group(list(range(world))) for _ in range(2))
    device.set_link(LINK)
    spans = {}
    for name, groups in (("two", (first, second)), ("one", (first, first))):
        for group in groups:
            dist.all_reduce(full(1), group=group)
        with meet() as (start, _):
            works = [dist.all_reduce(full(rank), group=group, async_op=True) for group in groups]
            for work in works:
                work.wait()
            end = record_event()
        spans[name] = milliseconds(start, end)
    device.set_link(0)
    return spans


def main() -> None:
    """Run every part."""
    device.load()
    dist.init_process_group("cpu:gloo,sim:simccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    figures: dict[str, Any] = {"values": values(rank, world), "coalesced": coalesce(rank)}
    figures["stand"] = stand(rank)
    figures["overlapped"] = overlap_kernel(rank)
    figures["slow_link"] = slow_link(rank)
    figures["groups"] = two_groups(rank, world)
    figures["error"] = error_of(torch.accelerator.synchronize)
    write(figures)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
