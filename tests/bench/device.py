"""Host time of the hooks where a device is timed: the simulated one, in a process of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.collectives.fsdp2 import TimedCommunication
from stepwatch.signals import places
from stepwatch.signals.records import Op

from .result import Result, microseconds

PHASES = ("data", "forward", "backward", "optimizer", "other", "eval")
COLLECTIVES = {"forward": 4, "backward": 4}
STEPS, ROUNDS = 10, 250
AHEAD_SECONDS = 0.01
"""The device is busy for that long while the host runs ahead: else each enqueued operation would
wake a sleeping thread, which is what a simulated device costs and no hook."""
Mark = Callable[[str], AbstractContextManager[Any]]


class _Tensor:
    nbytes = 4096


def _nothing(_output: Any, _input: Any, _group: Any) -> None:
    return None


def measure() -> Iterator[Result]:
    """A step with six phases and eight collectives, each of which enqueues one operation."""
    words = [sys.executable, "-m", "tests.bench.device"]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    with_events, host = found["device"] - found["bare"], found["host"] - found["bare"]
    what = "6 phases and 8 collectives"
    yield Result(
        f"hooks with device events, per step with {what}",
        f"{with_events:.1f} µs",
        "40 µs",
        f"of them events {with_events - host:.1f} µs, {found['boundaries']:.0f} boundaries; "
        f"on the side thread {found['beside']:.1f} µs; "
        f"{with_events / 1e5:.4%} of a 100 ms step",
    )
    yield Result(f"the same, timed on the host alone, {what}", f"{host:.1f} µs", "", "")
    for name, words_of in (
        ("profiler", "torch.profiler, default schedule, same step"),
        ("synchronised", "synchronising at every phase, same step"),
    ):
        other = found[name] - found["bare"]
        ratio = f"{other / with_events:.1f} times the hooks with device events"
        yield Result(words_of, f"{other:.1f} µs", "", ratio)


def _loop(mark: Mark, collective: Callable[..., None], kernel: Callable[[float], None]) -> Any:
    """A loop over steps; what it enqueues takes the device no time."""
    tensor = _Tensor()

    def turns(count: int) -> None:
        for _ in range(count):
            with mark("step"):
                for name in PHASES:
                    with mark(name):
                        kernel(0.0)
                        for _call in range(COLLECTIVES.get(name, 0)):
                            collective(tensor, tensor, None)
                            kernel(0.0)

    return turns


def _steps_ahead(
    device: Any, loop: Callable[[int], None], beside: Callable[[], object] | None = None
) -> tuple[float, float]:
    """Times per step in µs: best of a host that runs ahead, median of what a side thread does then.

    The device catches up between rounds.
    """
    import torch

    times, others = [], []
    for _ in range(ROUNDS):
        torch.accelerator.synchronize()
        device.kernel(AHEAD_SECONDS)
        began = time.perf_counter()
        loop(STEPS)
        times.append((time.perf_counter() - began) / STEPS * 1e6)
        if beside is not None:
            torch.accelerator.synchronize()
            began = time.perf_counter()
            beside()
            others.append((time.perf_counter() - began) / STEPS * 1e6)
    return min(times), statistics.median(others or [0.0])


def _watched(device: Any, *, timed: bool) -> tuple[float, float, float]:
    """Times of a step under a Watch, and the boundaries that a step has on the device."""
    watch = Watch.from_env(job="timed" if timed else "host")
    timing = watch.instruments.device
    if not timed:
        timing.consider = lambda: None  # type: ignore[method-assign]
        watch.recorder.step_boundary = None
    collective = TimedCommunication(watch.instruments, _nothing, Op.ALL_GATHER)
    phases = {name: watch.phase(name) for name in PHASES}
    with watch.step():
        pass
    phases = {name: watch.phase(name) for name in PHASES}
    step = watch.step()

    def mark(name: str) -> AbstractContextManager[Any]:
        return step if name == "step" else phases[name]

    marks, resolver = timing.marks, timing._resolver
    beside = None if resolver is None else lambda: resolver.resolve(time.monotonic_ns(), STEPS)
    spent, later = _steps_ahead(device, _loop(mark, collective, device.kernel), beside)
    found = 0.0
    if marks is not None:
        with watch.step():
            for name in PHASES:
                with phases[name]:
                    for _ in range(COLLECTIVES.get(name, 0)):
                        collective(_Tensor(), _Tensor(), None)
                        device.kernel(0.0)
            found = float(len(marks.open.events)) + 1
    watch.close()
    return spent, later, found


def _profiled(device: Any) -> float:
    from torch.profiler import profile, record_function

    with profile() as profiler:

        def mark(name: str) -> AbstractContextManager[Any]:
            return record_function(name)

        loop = _loop(mark, _nothing, device.kernel)

        def turns(count: int) -> None:
            for _ in range(count):
                loop(1)
                profiler.step()

        return _steps_ahead(device, turns)[0]


class _Synchronised:
    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def __enter__(self) -> None:
        self._wait()

    def __exit__(self, *_error: object) -> None:
        self._wait()


def main() -> None:
    """Measure in this process, which has the device for good, and print one line of JSON."""
    import torch

    from tests.simulated_device import device

    device.load()
    device.set_depth(0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ[places.ENV_RING_DIR] = folder
        nothing, waits = nullcontext(), _Synchronised(torch.accelerator.synchronize)
        bare, _ = _steps_ahead(device, _loop(lambda _: nothing, _nothing, device.kernel))
        host, _, _ = _watched(device, timed=False)
        timed, later, boundaries = _watched(device, timed=True)
        found = {
            "bare": bare,
            "host": host,
            "device": timed,
            "beside": later,
            "boundaries": boundaries,
            "profiler": _profiled(device),
            "synchronised": microseconds(_loop(lambda _: waits, _nothing, device.kernel), STEPS),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
