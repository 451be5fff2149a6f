"""torch.compile of a watched model: the same graph, the same losses, timed on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind
from tests.gpu.finding import Finding
from tests.gpu.model import batches, layers
from tests.gpu.place import Place
from tests.gpu.rings import finish, rows_of

STEPS, WIDTH, ROWS = 20, 256, 64


def check(place: Place) -> Iterator[Finding]:
    """Both modes in which users compile."""
    for mode in ("default", "reduce-overhead") if place.is_gpu else ("default",):
        yield from _mode(place, mode)


def _mode(place: Place, mode: str) -> Iterator[Finding]:
    job = f"compiled-{mode}"
    bare, bare_breaks, _ = _train(place, mode, "")
    watched, breaks, errors = _train(place, mode, job)
    if mode == "reduce-overhead":
        skipped = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
        trees = torch._inductor.cudagraph_trees.get_container(0).tree_manager is not None
        yield Finding(
            "compiled (reduce-overhead): graphs of CUDA",
            f"{'used' if trees else 'not used'}, {skipped} skipped",
            "used, none skipped",
            trees and skipped == 0,
        )
    yield Finding(
        f"compiled ({mode}): losses with hooks and without",
        "bitwise equal" if watched == bare else "different",
        "bitwise equal",
        watched == bare,
        {"first": bare[0], "last": bare[-1]},
    )
    yield Finding(
        f"compiled ({mode}): breaks of the graph with hooks and without",
        f"{breaks} and {bare_breaks}; errors of hooks {errors}",
        "the same",
        breaks == bare_breaks and errors == 0,
    )
    rows = rows_of(job, Kind.DEVICE_STEP)
    forward = float(rows["forward_seconds"].sum()) if len(rows) else 0.0
    yield Finding(
        f"compiled ({mode}): steps timed on the device",
        f"{len(rows)} of {STEPS}, forward {forward * 1e3:.1f} ms in all",
        f"{STEPS}",
        len(rows) == STEPS if place.is_gpu else None,
    )


def _train(place: Place, mode: str, job: str) -> tuple[list[str], int, int]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model = layers(place, 3, WIDTH).float()
    compiled: Any = torch.compile(model, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = Watch.from_env(job=job) if job else None
    if watch is not None:
        watch.attach(model=compiled, optimizer=optimizer)
    losses = []
    for batch in batches(place, STEPS, ROWS, WIDTH):
        inputs = batch.to(place.kind, torch.float32)
        if watch is None:
            losses.append(_step(compiled, optimizer, inputs, None))
        else:
            with watch.step() as step:
                losses.append(_step(compiled, optimizer, inputs, step))
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    if watch is None:
        return losses, breaks, 0
    finish(watch, place)
    return losses, breaks, watch.guard.errors


def _step(model: Any, optimizer: Any, inputs: Any, step: Any) -> str:
    compiler: Any = torch.compiler
    compiler.cudagraph_mark_step_begin()
    if step is None:
        loss = model(inputs).square().mean()
        loss.backward()
    else:
        with step.phase("forward"):
            loss = model(inputs).square().mean()
        with step.phase("backward"):
            loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float.hex(loss.item())
