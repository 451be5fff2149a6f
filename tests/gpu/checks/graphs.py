"""A CUDA graph is captured while the hooks' side thread asks for events."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch

from stepwatch.hooks import Watch
from stepwatch.signals.records import DeviceFlag, Kind
from tests.gpu.finding import Finding
from tests.gpu.model import batches, layers
from tests.gpu.place import Place
from tests.gpu.rings import finish, rows_of

CAPTURE_SECONDS = 2.2
"""The side thread looks every half second."""
CAPTURED_AT, STEPS = 3, 8
WIDTH, ROWS = 256, 64


def check(place: Place) -> Iterator[Finding]:
    """Capture a graph under the hooks, and show that an incautious thread breaks a capture."""
    if not place.is_gpu:
        yield Finding("CUDA graphs", "only on a GPU")
        return
    yield from _capture(place)
    yield _control()


def _capture(place: Place) -> Iterator[Finding]:
    model = layers(place, 4, WIDTH)
    watch = Watch.from_env(job="captured")
    watch.attach(model=model)
    static, *replay_batches = (batch.to(place.kind) for batch in batches(place, STEPS, ROWS, WIDTH))
    graph, looks, problem = torch.cuda.CUDAGraph(), [0], ""
    captured, differences = torch.zeros(()), []
    with torch.no_grad():
        for number in range(STEPS):
            with watch.step() as step:
                if number < CAPTURED_AT:
                    with step.phase("forward"):
                        model(static)
                    continue
                if number > CAPTURED_AT:
                    if problem:
                        break
                    with step.phase("forward"):
                        static.copy_(replay_batches[number % len(replay_batches)])
                        graph.replay()
                        differences.append((captured - model(static)).abs().max())
                    continue
                _count_looks(watch, looks)
                looks_before = looks[0]
                try:
                    with torch.cuda.graph(graph), step.phase("forward"):
                        captured = model(static)
                        time.sleep(CAPTURE_SECONDS)
                except RuntimeError as error:
                    problem = str(error).splitlines()[0]
                looks[0] -= looks_before
    different = float(torch.stack(differences).max()) if differences else math.nan
    finish(watch, place)
    rows = rows_of("captured", Kind.DEVICE_STEP)
    flags = dict(zip(rows["step"].tolist(), rows["flags"].tolist(), strict=True))
    yield Finding(
        "a graph captured while the side thread looks",
        problem or f"captured; the thread looked {looks[0]} times meanwhile",
        "captured, looked at least twice",
        not problem and looks[0] >= 2,
    )
    yield Finding(
        "replayed beside the same model run",
        f"differs by {different} in {len(differences)} replays",
        "0",
        different == 0.0 and len(differences) == STEPS - CAPTURED_AT - 1,
    )
    flagged = [step for step, value in flags.items() if value & DeviceFlag.CAPTURED]
    yield Finding(
        "steps that say that a graph was captured in them",
        f"{flagged} of {sorted(flags)}; errors of hooks {watch.guard.errors}",
        f"[{CAPTURED_AT}]",
        flagged == [CAPTURED_AT] and watch.guard.errors == 0,
    )


def _count_looks(watch: Watch, looks: list[int]) -> None:
    heartbeat = watch.recorder.heartbeat
    assert heartbeat is not None
    look = heartbeat.background_call
    assert look is not None

    def count_look() -> None:
        look()
        looks[0] += 1

    heartbeat.background_call = count_look


def _control() -> Finding:
    """Show that another thread's event query ends a capture: the trap is real."""
    cuda: Any = torch.cuda
    event, stop, problem = cuda.Event(), threading.Event(), ""
    event.record()

    def ask() -> None:
        torch.cuda.set_device(0)
        while not stop.wait(0.05):
            try:
                event.query()
            except RuntimeError:
                return

    thread = threading.Thread(target=ask)
    tensor = torch.zeros(4, device="cuda")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            thread.start()
            tensor += 1
            time.sleep(0.5)
            tensor += 1
    except RuntimeError as error:
        problem = str(error).splitlines()[0]
    stop.set()
    thread.join()
    return Finding(
        "the same with a thread that asks without care",
        f"the capture failed: {problem}" if problem else "captured as well",
        "the capture fails, or the check above shows nothing",
        bool(problem),
    )
