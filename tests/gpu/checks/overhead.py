"""Cost of the hooks per step on a GPU: steps with and without them alternate in one process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from stepwatch.hooks import Watch
from tests.gpu.finding import Finding
from tests.gpu.model import batches, layers
from tests.gpu.place import Place
from tests.gpu.rings import finish
from tests.services import ROOT

PAIRS, STEPS = 12, 25


class _Shape:
    def __init__(self, name: str, count: int, width: int, rows: int) -> None:
        self.name, self.count, self.width, self.rows = name, count, width, rows


def check(place: Place) -> Iterator[Finding]:
    """Measure a device-bound step, a host-bound step, and the bare calls."""
    shapes = (
        (_Shape("device-bound", 6, 4096, 8192), _Shape("host-bound", 24, 256, 64))
        if place.is_gpu
        else (_Shape("device-bound", 2, 64, 32),)
    )
    for shape in shapes:
        yield _pairs(place, shape)
    if place.is_gpu:
        yield from _calls()


def _pairs(place: Place, shape: _Shape) -> Finding:
    """Alternate blocks of steps as off, on, on, off: a clock drift affects both alike."""
    watch = Watch.from_env(job=f"overhead-{shape.name}")
    turns = {
        name: _training(place, shape, watch if name == "on" else None) for name in ("on", "off")
    }
    for turn in turns.values():
        turn(10)
    place.wait()
    times: dict[str, list[float]] = {"on": [], "off": []}
    for pair in range(PAIRS if place.is_gpu else 2):
        for name in ("on", "off") if pair % 2 else ("off", "on"):
            began = time.perf_counter()
            turns[name](STEPS)
            place.wait()
            times[name].append((time.perf_counter() - began) / STEPS)
    ratios = [on / off for on, off in zip(times["on"], times["off"], strict=True)]
    finish(watch, place)
    off, on = (statistics.median(times[name]) for name in ("off", "on"))
    return Finding(
        f"step with hooks / without, {shape.name}",
        f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}, {len(ratios)} "
        f"pairs of {STEPS} steps); {off * 1e3:.2f} ms without, {(on - off) * 1e6:+.0f} µs",
        "1.001" if shape.name == "device-bound" else "",
        statistics.median(ratios) <= 1.001
        if shape.name == "device-bound" and place.is_gpu
        else None,
        {"ratio": statistics.median(ratios), "step_seconds": off, "more_seconds": on - off},
    )


def _training(place: Place, shape: _Shape, watch: Watch | None) -> Any:
    model = layers(place, shape.count, shape.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    batch = next(iter(batches(place, 1, shape.rows, shape.width)))
    if watch is not None:
        watch.attach(model=model, optimizer=optimizer)

    def forward_backward(step: Any) -> Any:
        with step.phase("data"):
            inputs = batch.to(place.kind, non_blocking=True)
        with step.phase("forward"):
            loss = model(inputs).float().square().mean()
        with step.phase("backward"):
            loss.backward()
        with step.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    def bare() -> None:
        inputs = batch.to(place.kind, non_blocking=True)
        loss = model(inputs).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    def turn(count: int) -> None:
        for _ in range(count):
            if watch is None:
                bare()
                continue
            with watch.step(tokens=shape.rows) as step:
                step.record(loss=forward_backward(step))

    return turn


def _calls() -> Iterator[Finding]:
    """Run the simulated device's benchmark on this device."""
    words = [sys.executable, "-m", "tests.bench.device", "cuda"]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=90)
    if ended.returncode:
        yield Finding("hooks with device events, per step", ended.stderr[-300:], "40 µs", False)
        return
    times: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    cost = times["device"] - times["bare"]
    for name, text in (
        ("device", "hooks with device events, per step with 6 phases and 8 collectives"),
        ("host", "the same, timed on the host alone"),
        ("records", f"the same, {times['marks']:.0f} times torch.Event.record() and nothing else"),
        ("profiler", "the same, torch.profiler, default schedule"),
        ("synchronised", "the same, synchronising at every phase"),
    ):
        added_us = times[name] - times["bare"]
        yield Finding(
            text,
            f"{added_us:.1f} µs, {added_us / cost:.2f} times the hooks with events",
            "40 µs" if name == "device" else "",
            cost <= 40.0 if name == "device" else None,
            {"seconds": added_us / 1e6},
        )
