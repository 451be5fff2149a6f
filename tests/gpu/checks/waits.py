"""Hooks never wait for the device, and change no bit of the training."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind, NumericsSource
from tests.gpu import profile
from tests.gpu.finding import Finding
from tests.gpu.model import batches, layers
from tests.gpu.place import Place
from tests.gpu.rings import finish, rows_of, timed_step_count

STEPS, BUSY_STEPS, COUNTED_STEPS = 30, 8, 20
WIDTH, ROWS = 256, 64
BUSY_SECONDS = 1.5
_WAITS = (
    *("Synchronize", "cudaMemcpy", "cudaFree", "cudaMalloc", "cuMemFree", "cuCtxSync"),
    *("HostAlloc", "HostRegister"),
)
_UNNAMED = "INVALID"
"""The profiler's name for an unknown function."""
_ALLOWED = ("Async", "cudaMallocAsync", "cudaFreeAsync")


def check(place: Place) -> Iterator[Finding]:
    """A busy device, the calls that a profile counts, torch's own alarm, and losses bit by bit."""
    yield _while_busy(place)
    yield _calls(place)
    if place.is_gpu:
        yield _alarm(place)
    yield _losses(place)


class _Training:
    """A model, its optimizer, and a watch of them unless `job` is empty."""

    def __init__(self, place: Place, job: str) -> None:
        self.place = place
        self.model = layers(place, 4, WIDTH).float()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.watch = Watch.from_env(job=job) if job else None
        if self.watch is not None:
            self.watch.attach(model=self.model, optimizer=self.optimizer)

    def step(self, batch: Tensor) -> Tensor:
        """Run one step; return its loss, unread."""
        if self.watch is None:
            return self._train(batch)
        with self.watch.step(tokens=ROWS) as step:
            loss = self._train(batch)
            gradients = [parameter.grad for parameter in self.model.parameters()]
            self.watch.instruments.numerics.check(gradients, str, NumericsSource.COLLECTIVE_INPUT)
            step.record(loss=loss.detach())
        return loss

    def _train(self, batch: Tensor) -> Tensor:
        loss = (
            self.model(batch.to(self.place.kind, torch.float32, non_blocking=True)).square().mean()
        )
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        detached: Tensor = loss.detach()
        return detached

    def end(self) -> None:
        """Let the hooks write their remaining records."""
        if self.watch is not None:
            finish(self.watch, self.place)


def _while_busy(place: Place) -> Finding:
    training = _Training(place, "busy")
    data = list(batches(place, BUSY_STEPS, ROWS, WIDTH))
    training.step(data[0])
    training.step(data[1])
    place.wait()
    busy = place.event()
    place.spin(BUSY_SECONDS)
    busy.record()
    for batch in data[2:]:
        training.step(batch)
    passed = busy.query()
    training.end()
    written, timed_steps = len(rows_of("busy", Kind.STEP)), timed_step_count("busy")
    errors = training.watch.guard.errors if training.watch is not None else 0
    return Finding(
        f"steps under the hooks while the device is busy for {BUSY_SECONDS} s",
        f"{written} steps, {timed_steps} timed on the device, the host waited: "
        f"{'yes' if passed else 'no'}; errors of hooks {errors}",
        "no, and all timed",
        (not passed and errors == 0 and written == timed_steps == BUSY_STEPS)
        if place.is_gpu
        else None,
    )


def _calls(place: Place) -> Finding:
    with_hooks, without = (_count_calls(place, job) for job in ("counted", ""))
    more = {
        name: with_hooks[name] - without[name]
        for name in with_hooks
        if with_hooks[name] > without[name]
    }
    waits = {name: count for name, count in more.items() if _waits(name)}
    unnamed = more.get(_UNNAMED, 0)
    return Finding(
        f"calls that may wait, more with hooks than without, in {COUNTED_STEPS} steps",
        f"{waits or 'none'}; {unnamed} more that the profiler has no name for",
        "none",
        # Whether a function without a name waits is unknown.
        (False if waits else None if unnamed else True) if place.is_gpu else None,
        {"more_calls": more, "without": dict(without)},
    )


def _waits(name: str) -> bool:
    return any(part in name for part in _WAITS) and not any(part in name for part in _ALLOWED)


def _count_calls(place: Place, job: str) -> Counter[str]:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    training = _Training(place, job)
    data = list(batches(place, COUNTED_STEPS + 5, ROWS, WIDTH))
    for batch in data[:5]:
        training.step(batch)
    place.wait()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if place.is_gpu else [])]
    with profiler(activities=activities) as profiling:
        for batch in data[5:]:
            training.step(batch)
    training.end()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiling.export_chrome_trace(str(path))
        return Counter(profile.calls(profile.load(path)))


def _alarm(place: Place) -> Finding:
    """Check that no operation waits, by torch's own alarm."""
    training = _Training(place, "alarm")
    data = list(batches(place, STEPS, ROWS, WIDTH))
    training.step(data[0])
    place.wait()
    torch.cuda.set_sync_debug_mode("error")
    problem = ""
    try:
        for batch in data[1:]:
            training.step(batch)
    except RuntimeError as error:
        problem = str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    training.end()
    errors = training.watch.guard.errors if training.watch is not None else 0
    return Finding(
        f"torch's own alarm about waits, {STEPS - 1} steps",
        problem or f"silent, {timed_step_count('alarm')} steps timed; errors of hooks {errors}",
        "silent, and all timed",
        not problem and errors == 0 and timed_step_count("alarm") == STEPS,
    )


def _losses(place: Place) -> Finding:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    outcomes = []
    for job in ("losses", ""):
        training = _Training(place, job)
        losses = [training.step(batch) for batch in batches(place, STEPS, ROWS, WIDTH)]
        weights = torch.cat(
            [parameter.detach().flatten() for parameter in training.model.parameters()]
        )
        outcomes.append(([float.hex(loss.item()) for loss in losses], weights.cpu()))
        training.end()
    torch.use_deterministic_algorithms(False)
    (watched, weights), (bare, bare_weights) = outcomes
    equal = watched == bare and bool(
        (weights.view(torch.int32) == bare_weights.view(torch.int32)).all()
    )
    timed_steps = timed_step_count("losses")
    return Finding(
        f"losses of {STEPS} steps and all weights, with hooks and without",
        f"{'bitwise equal' if equal else 'different'}, {timed_steps} steps timed on the device",
        "bitwise equal, and all timed",
        equal and (timed_steps == STEPS or not place.is_gpu),
        {"last_loss": watched[-1]},
    )
