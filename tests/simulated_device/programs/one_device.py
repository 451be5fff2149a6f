"""Behaviour of one device without a peer; each part is a function that returns its figures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.simulated_device import device
from tests.simulated_device.control import Hang

from .report import error_of, event, milliseconds, record_event, write

NAME = device.NAME
Figures = TypeVar("Figures")


def wait() -> None:
    """Wait for the device."""
    torch.accelerator.synchronize()


def run_in_time(run: Callable[[float], Figures]) -> Figures:
    """Return the figures of `run` with a device that was busy for longer than the host took.

    `run` is called with the device's busy seconds; a host that was late by its own clock gets a
    longer period the next time.
    """
    for seconds in (0.1, 1.0, 10.0):
        began = time.monotonic()
        figures = run(seconds)
        if time.monotonic() - began < seconds:
            break
    return figures


def asynchrony() -> dict[str, Any]:
    """Twenty operations of 5 ms."""
    device.set_costs({"mul": 5e-3})
    tensor = torch.ones(4, device=NAME) * 1.0  # the first call of an operation costs host time
    with device.Hold() as hold:
        begin = record_event()
        for _ in range(20):
            tensor = tensor * 1.5
        end = record_event()
    figures = {"ms": milliseconds(begin, end), "host_waited": hold.host_waited}
    device.set_costs({})
    return {**figures, "value": tensor[0].item(), "expected": 1.5**20}


def short_operations() -> dict[str, Any]:
    """A thousand operations of 100 us, and half of them on a device three times as slow."""
    device.set_default_seconds(100e-6)
    tensor = torch.ones(4, device=NAME).mul_(1.0)
    figures = {}
    for name, factor in (("healthy", 1), ("slow", 3)):
        device.set_slow(factor)
        with device.Hold():
            begin = record_event()
            for _ in range(500):
                tensor.mul_(1.0)
            end = record_event()
        figures[name] = milliseconds(begin, end)
    device.set_slow(1)
    device.set_default_seconds(0)
    return figures


def reuse_event(seconds: float) -> tuple[torch.Event, Tensor, bool]:
    """Record one event twice; return it, the tensor that waited for the first record, and whether
    the event has passed.

    The device is busy for `seconds` between both records.
    """
    side, value = torch.Stream(NAME), torch.zeros(1, device=NAME)
    wait()
    device.kernel(0.01)
    reused = record_event()
    side.wait_event(reused)
    device.kernel(seconds)
    reused.record()
    with side:
        value.add_(1)
        end = record_event()
    end.synchronize()
    return reused, value, reused.query()


def reused_event() -> dict[str, Any]:
    """A stream that waits for an event's first record still waits for that one after a second
    record."""
    reused, value, second_passed = run_in_time(reuse_event)
    reused.synchronize()
    return {"second_passed": second_passed, "value": value.item()}


def read_across_streams(waits: bool, seconds: float) -> float:
    """Read a value that another stream writes after `seconds`, with and without a wait for it."""
    side, value = torch.Stream(NAME), torch.zeros(1, device=NAME)
    wait()
    with side:
        device.kernel(seconds)
        value.add_(1)
    if waits:
        torch.accelerator.current_stream().wait_stream(side)
    return float(value.item())


def overlap() -> dict[str, Any]:
    """Two streams of 40 ms each, joined."""
    side = torch.Stream(NAME)
    with device.Hold():
        begin = record_event()
        side.wait_event(begin)
        device.kernel(0.04)
        with side:
            device.kernel(0.04)
        torch.accelerator.current_stream().wait_stream(side)
        end = record_event()
    return {"ms": milliseconds(begin, end)}


def host_moments() -> dict[str, Any]:
    """An event of an idle device passes when it is recorded, between two readings of the clock."""
    wait()
    looks = [time.monotonic()]
    base = record_event()
    looks.append(time.monotonic())
    time.sleep(0.05)
    looks.append(time.monotonic())
    second_event = record_event()
    looks.append(time.monotonic())
    least, most = looks[2] - looks[1], looks[3] - looks[0]
    return {"ms": milliseconds(base, second_event), "least": 1e3 * least, "most": 1e3 * most}


def pinned_copy() -> dict[str, Any]:
    """Copies: from pinned memory the host's later write is seen, from pageable memory it is not."""
    values = {}
    for name, source in (("pinned", torch.zeros(4).pin_memory()), ("pageable", torch.zeros(4))):
        with device.Hold():
            copied = source.to(NAME, non_blocking=True)
            source.fill_(7)
        values[name] = copied[0].item()
    return values


def depth() -> dict[str, Any]:
    """Launch more than fits: the host blocks until the device has caught up."""
    device.set_default_seconds(2e-3)
    tensor = torch.ones(1, device=NAME)
    wait()
    device.set_depth(8)
    begin = record_event()
    for _ in range(28):
        tensor.mul_(1.0)
    first_passed = begin.query()
    device.set_depth(0)
    with device.Hold() as hold:
        for _ in range(28):
            tensor.mul_(1.0)
    figures = {"bounded": first_passed, "unbounded": hold.host_waited}
    device.set_default_seconds(0)
    device.set_depth(1024)
    return figures


def numbers() -> dict[str, Any]:
    """Compare random numbers with the CPU's for the same seed, in the order of the calls."""
    torch.manual_seed(5)
    host = torch.randn(8)
    torch.manual_seed(5)
    first = torch.randn(8, device=NAME)
    state = torch.get_device_module(NAME).get_rng_state()
    second = torch.randn(8, device=NAME)
    torch.get_device_module(NAME).set_rng_state(state)
    repeated = torch.randn(8, device=NAME)
    generated = torch.rand(3, device=NAME, generator=torch.Generator(NAME).manual_seed(1))
    return {
        "as_host": torch.equal(first.cpu(), host),
        "state": torch.equal(second.cpu(), repeated.cpu()),
        "own": torch.equal(
            generated.cpu(), torch.rand(3, generator=torch.Generator().manual_seed(1))
        ),
    }


def losses(where: str) -> list[float]:
    """Train a small net for 30 steps of AdamW."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 4)).to(where)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    source, step_losses = torch.Generator().manual_seed(1), []
    for step in range(30):
        inputs = torch.randn(32, 16, generator=source).to(where)
        labels = inputs[:, :4].argmax(1)
        outputs: Tensor = checkpoint(net, inputs, use_reentrant=False) if step % 2 else net(inputs)
        loss = nn.functional.cross_entropy(outputs, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        step_losses.append(loss.item())
    return step_losses


def autocast() -> dict[str, Any]:
    """Matrix products in bfloat16, norms in float32; a scaler runs through."""
    net = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)).to(NAME)
    optimizer, scaler = torch.optim.SGD(net.parameters(), 0.1), torch.amp.GradScaler(NAME)
    with torch.autocast(NAME, torch.bfloat16):
        product = net[0](torch.ones(2, 16, device=NAME))
        normed = net[1](product)
    scaler.scale(normed.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return {"product": str(product.dtype), "normed": str(normed.dtype)}


def graph() -> dict[str, Any]:
    """Capture, and replay twice."""
    module: Any = torch.get_device_module(NAME)
    captured, tensor = module.Graph(), torch.ones(3, device=NAME)
    capturing_before = module.is_current_stream_capturing()
    with module.graph(captured):
        during = module.is_current_stream_capturing()
        tensor.mul_(2)
        device.kernel(0.01)
        refused = error_of(lambda: event().record()), error_of(wait)
    untouched = tensor[0].item()
    with device.Hold():
        begin = record_event()
        captured.replay()
        captured.replay()
        end = record_event()
    return {
        "capturing": [capturing_before, during, module.is_current_stream_capturing()],
        "refused": refused,
        "values": [untouched, tensor[0].item()],
        "ms": milliseconds(begin, end),
    }


def asynchronous_error() -> dict[str, Any]:
    """An index out of range is found by the device, after the call has returned."""
    table = nn.Embedding(4, 2).to(NAME)
    rows = table(torch.tensor([9]).to(NAME))
    return {"error": error_of(lambda: rows.sum().item()), "after": error_of(wait)}


def hung_kernel() -> dict[str, Any]:
    """A kernel that does not end keeps its stream, and no other, until the hang ends."""
    side = torch.Stream(NAME)
    wait()
    device.hang(Hang.KERNEL)
    device.kernel(0.001)
    end = record_event()
    with side:
        free = record_event()
    free.synchronize()
    time.sleep(0.05)
    hung = not end.query()
    device.hang(Hang.NONE)
    end.synchronize()
    return {"hung": hung, "ended": end.query()}


def memory() -> dict[str, Any]:
    """Bytes in use before and after 100 steps."""
    module: Any = torch.get_device_module(NAME)
    net, tensor = nn.Linear(16, 16).to(NAME), torch.ones(4, 16, device=NAME)
    nbytes = []
    for step in range(101):
        net(tensor).sum().backward()
        net.zero_grad()
        if step % 100 == 0:
            wait()
            wait()  # the operation before the first wait's event is dropped by now
            nbytes.append(module.memory_allocated())
    return {"grown": nbytes[1] - nbytes[0]}


def fork() -> dict[str, Any]:
    """Return a child's errors from the device that its parent uses."""
    module: Any = torch.get_device_module(NAME)
    tensor = torch.ones(1, device=NAME)
    wait()
    reader, writer = os.pipe()
    if os.fork() == 0:
        errors = error_of(lambda: tensor.add_(1)), error_of(wait), module._is_in_bad_fork()
        os.write(writer, json.dumps(errors).encode())
        os._exit(0)
    os.wait()
    launch, event, bad = json.loads(os.read(reader, 1000))
    return {"errors": [launch, event], "bad": [module._is_in_bad_fork(), bad]}


def use_lost_device() -> dict[str, Any]:
    """Every event of a lost device raises, and every wait."""
    begin, end = record_event(), record_event()
    end.synchronize()
    device.lose()
    calls: dict[str, Callable[[], Any]] = {
        "query": end.query,
        "record": event().record,
        "elapsed": lambda: begin.elapsed_time(end),
        "synchronize": end.synchronize,
        "device": wait,
    }
    return {name: error_of(call) for name, call in calls.items()}


def main() -> None:
    """Run every part; the last one loses the device."""
    device.load()
    parts = [asynchrony, short_operations, reused_event, overlap, host_moments, pinned_copy]
    parts += [depth, numbers, autocast, graph, asynchronous_error, hung_kernel, memory, fork]
    figures: dict[str, Any] = {part.__name__: part() for part in parts}
    unwaited = run_in_time(partial(read_across_streams, False))
    figures["stale"] = [unwaited, read_across_streams(True, 0.02)]
    figures["losses"] = [losses(where) for where in ("cpu", NAME)]
    figures["lost"] = use_lost_device()
    write(figures)


if __name__ == "__main__":
    main()
