"""Scenarios of one rank on the simulated device, each a job of its own; what it saw, as JSON.

Run as a program: `torch.accelerator` names the device for the rest of the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional_collectives

from stepwatch.hooks import Watch
from stepwatch.signals.records import NumericsSource
from tests.simulated_device import device

COSTS = {"data": 0.004, "forward": 0.02, "backward": 0.04, "optimizer": 0.008}
LATE, LINK = 0.05, 0.04
STEPS = 8
Scenario = Callable[[Watch], object]


def wait_passed(limit: float = 20.0) -> None:
    """Let the device finish as nobody but a test does, so that rows can be written."""
    torch.accelerator.synchronize()
    time.sleep(min(limit, 0.05))


def phases(watch: Watch) -> None:
    """Stated costs in four phases; the host never waits."""
    for _ in range(STEPS):
        with watch.step() as step:
            for name, seconds in COSTS.items():
                with step.phase(name):
                    device.kernel(seconds)
    wait_passed()


def reads(watch: Watch) -> None:
    """The same, and the loss is read in each step, where the whole wait shows on the host."""
    loss = torch.ones((), device="sim")
    for _ in range(STEPS):
        with watch.step() as step:
            for name, seconds in COSTS.items():
                with step.phase(name):
                    device.kernel(seconds)
            loss.item()
    wait_passed()


def late_host(watch: Watch) -> None:
    """The host is late with the work of forward, in each step."""
    loss = torch.ones((), device="sim")
    for _ in range(STEPS):
        with watch.step() as step:
            with step.phase("forward"):
                time.sleep(LATE)
                device.kernel(COSTS["forward"])
            with step.phase("backward"):
                device.kernel(COSTS["backward"])
            loss.item()
    wait_passed()


def unwaited(watch: Watch) -> object:
    """Steps with all that the hooks read from a device, while the device is busy with one kernel.

    Whoever waited for the device would come back after it.
    """
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4))).to("sim")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch.attach(model=model, optimizer=optimizer)
    inputs = torch.randn(4, 8).to("sim")

    def step() -> None:
        with watch.step() as under_way:
            loss = model(inputs).square().mean()
            loss.backward()
            watch.instruments.numerics.check(
                [parameter.grad for parameter in model.parameters()],
                str,
                NumericsSource.COLLECTIVE_INPUT,
            )
            optimizer.step()
            optimizer.zero_grad()
            under_way.record(loss=loss)

    step()  # shapes are computed once, and memory is pinned
    wait_passed()
    with device.Hold():
        busy = torch.Event("sim")
        busy.record()
        for _ in range(12):  # over a digest of parameters and a reading of memory
            step()
        still_busy = not busy.query()
    wait_passed()
    return {"still_busy": still_busy}


def captured(watch: Watch) -> object:
    """A graph is captured in the first of three steps, and replayed in the others."""
    graph = torch.sim.Graph()  # type: ignore[attr-defined]
    tensor = torch.zeros(4, device="sim")
    for number in range(3):
        with watch.step() as step:
            with step.phase("data"):
                device.kernel(0.01)
            if number == 0:
                with torch.sim.graph(graph), step.phase("forward"):  # type: ignore[attr-defined]
                    tensor += 1
                    step.record(loss=tensor[0])
            else:
                with step.phase("forward"):
                    graph.replay()
    wait_passed()
    return {"sum": float(tensor.sum())}


def forked(watch: Watch) -> object:
    """A child of a fork goes on with the loop; it must leave device and ring alone."""

    def step() -> None:
        with watch.step() as under_way, under_way.phase("data"):
            pass

    step()
    pid = os.fork()
    if not pid:
        step()
        os._exit(0)
    ended = os.waitpid(pid, 0)[1]
    step()
    wait_passed()
    return {"ended": ended}


def lost(watch: Watch) -> object:
    """The device is lost between two steps; the loop goes on as far as it can."""
    for number in range(5):
        if number == 2:
            device.lose()
        with watch.step() as step, step.phase("forward"):
            pass
    device.control().set_lost(False)
    return {"errors": watch.guard.errors}


def collectives(watch: Watch) -> None:
    """Collectives that the trainer starts by name, and waits for in three ways, one in each step.

    They run on a stream of their own: the compute stream stands where it waits for them.
    """
    store: Any = torch._C._distributed_c10d.HashStore()
    dist.init_process_group("cpu:gloo,sim:simccl", store=store, rank=0, world_size=1)
    watch.attach()
    functional: Any = functional_collectives
    tensor = torch.ones(4, device="sim")
    dist.all_reduce(tensor)  # the first call connects
    wait_passed()
    device.set_link(LINK)

    def started() -> None:
        work = dist.all_reduce(tensor, async_op=True)
        device.kernel(LINK / 4)  # overlaps
        work.wait()

    def traceable() -> None:
        functional.wait_tensor(functional.all_reduce(tensor, "sum", dist.group.WORLD))

    for call in (lambda: dist.all_reduce(tensor), started, traceable):
        with watch.step() as step, step.phase("forward"):
            device.kernel(COSTS["forward"])
            call()
            device.kernel(COSTS["forward"])
    wait_passed()
    device.set_link(0)
    dist.destroy_process_group()


SCENARIOS: tuple[Scenario, ...] = (
    phases,
    reads,
    late_host,
    unwaited,
    collectives,
    captured,
    forked,
    lost,
)


def main() -> None:
    """Run every scenario under a Watch of its own."""
    device.load()
    results: dict[str, Any] = {}
    for scenario in SCENARIOS:
        watch = Watch.from_env(job=scenario.__name__)
        results[scenario.__name__] = scenario(watch)
        watch.close()
    Path(sys.argv[1]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
