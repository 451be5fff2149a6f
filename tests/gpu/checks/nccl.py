"""NCCL with one rank: DistributedDataParallel, FSDP2, collectives by name, the flight recorder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from stepwatch.agent.stalls.flight import Flight
from stepwatch.agent.stalls.inspector import ask_recorders
from stepwatch.hooks import Watch
from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, Op
from tests.gpu.finding import Finding
from tests.gpu.model import batches, layers
from tests.gpu.place import Place
from tests.gpu.rings import finish, rows_of
from tests.ports import free_port

STEPS, WIDTH, ROWS = 12, 1024, 256
HELD_SECONDS = 3.0


def check(place: Place) -> Iterator[Finding]:
    """Train with DDP, then with FSDP2, each as a job; the process group starts under the first
    watch."""
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
    }
    watch = Watch.from_env(job="nccl-ddp")
    dist.init_process_group("nccl" if place.is_gpu else "gloo")
    yield from _train(place, watch, "ddp")
    yield from _train(place, Watch.from_env(job="nccl-fsdp2"), "fsdp2")
    if place.is_gpu:
        yield from _recorder(place)
    dist.destroy_process_group()


def _wrap(kind: str, model: Any) -> Any:
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def _train(place: Place, watch: Watch, kind: str) -> Iterator[Finding]:
    model = _wrap(kind, layers(place, 4, WIDTH).float())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch.attach(model=model, optimizer=optimizer)
    extra = torch.ones(1 << 20, device=place.kind)
    for batch in batches(place, STEPS, ROWS, WIDTH):
        with watch.step(tokens=ROWS) as step:
            loss = model(batch.to(place.kind, torch.float32, non_blocking=True)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            dist.all_reduce(extra, op=dist.ReduceOp.AVG if place.is_gpu else dist.ReduceOp.SUM)
            step.record(loss=loss.detach())
    finish(watch, place)
    rows = rows_of(f"nccl-{kind}", Kind.DEVICE_COLLECTIVE)
    operations = sorted({Op(int(op)).name.lower() for op in rows["op"]})
    timed = int(rows["timed"].sum())
    yield Finding(
        f"NCCL, one rank, {kind}: collectives on the device",
        f"{', '.join(operations) or 'none'}: {timed} timed of {int(rows['count'].sum())} in "
        f"{STEPS} steps; errors of hooks {watch.guard.errors}",
        "timed, no error",
        (timed > 0 and watch.guard.errors == 0) if place.is_gpu else None,
    )
    steps = rows_of(f"nccl-{kind}", Kind.DEVICE_STEP)
    total_seconds = float(steps["duration_seconds"].sum()) if len(steps) else 0.0
    parts = {
        name: float(steps[f"{name}_seconds"].sum()) / total_seconds
        for name in ("forward", "backward", "optimizer", "other", "collective")
        if total_seconds
    }
    yield Finding(
        f"NCCL, one rank, {kind}: where the device's time went",
        ", ".join(f"{name} {share:.0%}" for name, share in parts.items()) or "unknown",
        "forward and backward known",
        (parts.get("forward", 0) > 0 and parts.get("backward", 0) > 0) if place.is_gpu else None,
        parts,
    )


def _recorder(place: Place) -> Iterator[Finding]:
    """Read the worker server while a kernel delays an enqueued collective."""
    watch = Watch.from_env(job="nccl-held")
    tensor = torch.ones(1 << 20, device=place.kind)
    dist.all_reduce(tensor)
    with watch.step():
        pass
    place.wait()
    time.sleep(1.0)
    with watch.step():
        place.spin(HELD_SECONDS)
        dist.all_reduce(tensor)
        time.sleep(1.0)
        path = _socket("nccl-held")
        began = time.monotonic()
        blocked, problem = _ask(path)
        took = time.monotonic() - began
    place.wait()
    time.sleep(0.5)
    drained, _ = _ask(path)
    states = (
        [entry.state for entry in blocked.entries][-1:],
        [entry.state for entry in drained.entries][-1:],
    )
    newest = blocked.entries[-1] if blocked.entries else None
    yield Finding(
        "NCCL's flight recorder, while a kernel holds up an all_reduce",
        f"{len(blocked.entries)} entries in {took * 1e3:.0f} ms, newest {newest}{problem}; "
        f"enqueued {blocked.enqueued}, completed {blocked.completed}",
        "enqueued one more than completed",
        blocked.enqueued == blocked.completed + 1,
    )
    yield Finding(
        "the same once it has ended",
        f"{states[0]} became {states[1]}; enqueued {drained.enqueued}, "
        f"completed {drained.completed}",
        "all completed",
        drained.enqueued == drained.completed >= 0,
    )
    finish(watch, place)


def _ask(path: Path) -> tuple[Flight, str]:
    flight, problem = ask_recorders(path)
    return flight or Flight(), problem


def _socket(job: str) -> Path:
    for path in find_rings(Path(os.environ[places.ENV_RING_DIR])):
        reader = RingReader(path)
        try:
            if reader.identity.job == job:
                return Path(reader.identity.worker_socket)
        finally:
            reader.close()
    raise LookupError(job)
