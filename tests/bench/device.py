"""Host time of the hooks with device timing, on the simulated device, in a process of its own."""

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
from pathlib import Path
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.collectives.fsdp2 import TimedCommunication
from stepwatch.hooks.core import CORE
from stepwatch.hooks.guard import Guard
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.records import Op

from .result import Result, microseconds

PHASES = ("data", "forward", "backward", "optimizer", "other", "eval")
COLLECTIVES = {"forward": 4, "backward": 4}
STEPS, TURNS, ROUNDS = 10, 5, 60
"""Steps that are timed together, repetitions in a row, and rounds in all."""
AHEAD_SECONDS = 0.02
"""The device is busy this long while the host runs ahead. Otherwise each enqueued operation would
wake a sleeping thread, a cost of the simulated device and not of the hooks.
"""
Mark = Callable[[str], AbstractContextManager[Any]]
Turns = Callable[[int], None]


class _Tensor:
    nbytes = 4096


def _nothing(_output: Any, _input: Any, _group: Any) -> None:
    return None


def measure() -> Iterator[Result]:
    """Measure a step with six phases and eight collectives, each of which enqueues one
    operation."""
    words = [sys.executable, "-m", "tests.bench.device"]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    host, records = times["host"] - times["bare"], times["records"] - times["bare"]
    with_events, marks = times["device"] - times["bare"], times["marks"]
    workload = "6 phases and 8 collectives"
    yield Result(
        f"hooks with device events, beyond the events, {workload}, {CORE} core",
        f"{with_events - records:.1f} µs",
        "20 µs",
        f"of it on the host alone {host:.1f} µs; on the side thread {times['beside']:.1f} µs",
    )
    yield Result(
        f"beside it: {marks:.0f} times torch.Event.record() alone",
        f"{records:.1f} µs",
        "",
        f"with the hooks {with_events:.1f} µs, {with_events / 1e5:.4%} of a 100 ms step",
    )
    for name, words_of in (
        ("profiler", "torch.profiler, default schedule, same step"),
        ("synchronised", "synchronising at every phase, same step"),
    ):
        added = times[name] - times["bare"]
        ratio = f"{added / with_events:.1f} times the hooks with device events"
        yield Result(words_of, f"{added:.1f} µs", "", ratio)


def _loop(mark: Mark, collective: Callable[..., None], kernel: Callable[[float], None]) -> Turns:
    """Return a loop over steps whose operations take no device time."""
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


def _recording(kind: str, loop: Turns, count: int) -> Turns:
    """Return the steps of `loop` with `count` recorded events each and nothing else."""
    import torch

    events = [torch.Event(kind, enable_timing=True) for _ in range(count)]
    stream = torch.accelerator.current_stream()

    def turns(steps: int) -> None:
        for _ in range(steps):
            loop(1)
            for event in events:
                event.record(stream)

    return turns


def _timed_ahead(device: Any, loop: Turns) -> float:
    """Return the best time of a step in µs for a host that runs ahead; the device catches up
    first."""
    import torch

    torch.accelerator.synchronize()
    device.keep_busy()
    times = []
    for _ in range(TURNS):
        began = time.perf_counter()
        loop(STEPS)
        times.append(time.perf_counter() - began)
    return min(times) / STEPS * 1e6


class _WatchedLoop:
    """Steps under a Watch; `timed` tells whether it times the device."""

    def __init__(self, device: Any, folder: Path, *, timed: bool) -> None:
        name = "timed" if timed else "host"
        ring = RingWriter(folder / name, Identity(name, 0, 0, 1, "node", os.getpid(), 1))
        self.watch = Watch(Recorder(ring, Guard()))
        self._timing = self.watch.instruments.device
        if not timed:
            self.watch.recorder.step_boundary = None
            self._timing._decided = True
        with self.watch.step():
            pass
        self._timing._look()  # as the side thread does: the resolver exists after this call
        phases = {name: self.watch.phase(name) for name in PHASES}
        step = self.watch.step()

        def mark(name: str) -> AbstractContextManager[Any]:
            return step if name == "step" else phases[name]

        collective = TimedCommunication(self.watch.instruments, _nothing, Op.ALL_GATHER, ())
        self.turns = _loop(mark, collective, device.kernel)

    def resolve(self) -> float:
        """Resolve a round's steps as the side thread does; return the time per step in µs."""
        import torch

        torch.accelerator.synchronize()
        assert self._timing._resolver is not None
        began = time.perf_counter()
        self._timing._resolver.resolve(time.monotonic_ns(), STEPS * TURNS)
        return (time.perf_counter() - began) / (STEPS * TURNS) * 1e6

    @property
    def marks(self) -> int:
        """Events recorded in the newest step."""
        assert self._timing._resolver is not None
        return len(self._timing._resolver.closed[-1].boundaries.events) - 1


def _time_profiler(device: Any) -> float:
    from torch.profiler import profile, record_function

    with profile() as profiler:

        def mark(name: str) -> AbstractContextManager[Any]:
            return record_function(name)

        loop = _loop(mark, _nothing, device.kernel)

        def turns(count: int) -> None:
            for _ in range(count):
                loop(1)
                profiler.step()

        return min(_timed_ahead(device, turns) for _ in range(ROUNDS))


class _DeviceWait:
    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def __enter__(self) -> None:
        self._wait()

    def __exit__(self, *_error: object) -> None:
        self._wait()


def _time_loops(device: Any, folder: Path) -> dict[str, float]:
    """Return the best time of each loop in µs; loops alternate, so that a slow moment hits all."""
    nothing = nullcontext()
    bare = _loop(lambda _: nothing, _nothing, device.kernel)
    host = _WatchedLoop(device, folder, timed=False)
    timed = _WatchedLoop(device, folder, timed=True)
    timed.turns(1)
    marks = timed.marks
    loops = {
        "bare": bare,
        "records": _recording(device.kind, bare, marks),
        "host": host.turns,
        "device": timed.turns,
    }
    times: dict[str, list[float]] = {name: [] for name in loops}
    resolve_times = []
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            times[name].append(_timed_ahead(device, loop))
        resolve_times.append(timed.resolve())
    best = {name: min(samples) for name, samples in times.items()}
    host.watch.close()
    timed.watch.close()
    return {**best, "marks": marks, "beside": statistics.median(resolve_times)}


class _SimulatedDevice:
    """The simulated device, and how to keep it busy while the host is timed."""

    kind = "sim"

    def __init__(self) -> None:
        from tests.simulated_device import device

        device.load()
        device.set_depth(0)
        self.kernel: Callable[[float], None] = device.kernel

    def keep_busy(self) -> None:
        """Let the host run ahead from now on."""
        self.kernel(AHEAD_SECONDS)


class _CudaDevice:
    """A GPU. Its driver queues 1,024 launches, so that it is not kept busy: only calls are
    timed."""

    kind = "cuda"

    def __init__(self) -> None:
        import torch

        self._place = torch.zeros(1, device="cuda")

    def kernel(self, _seconds: float) -> None:
        """Launch the smallest kernel."""
        self._place.zero_()

    def keep_busy(self) -> None:
        """Do nothing: a full queue would block the host."""


def main(kind: str = "sim") -> None:
    """Measure in this process, which keeps the device, and print one line of JSON."""
    import torch

    device: _SimulatedDevice | _CudaDevice = _SimulatedDevice() if kind == "sim" else _CudaDevice()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        times = _time_loops(device, Path(folder))
        times["profiler"] = _time_profiler(device)
        waits = _DeviceWait(torch.accelerator.synchronize)
        synchronised = _loop(lambda _: waits, _nothing, device.kernel)
        times["synchronised"] = microseconds(synchronised, STEPS)
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
