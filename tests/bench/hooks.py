"""Host time of the hooks, in one run with alternatives and with nothing."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.collectives.fsdp2 import TimedCommunication
from stepwatch.signals import places
from stepwatch.signals.records import Op

from . import hooks_beside as beside
from .result import Result, microseconds

PHASES, STEPS = beside.PHASES, beside.STEPS
METRICS = {f"metric_{number}": 0.5 * number for number in range(8)}


def measure() -> Iterator[Result]:
    """Measure a step with six phases, its parts and other tools, one collective, and the import."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ[places.ENV_RING_DIR] = folder
        on = Watch.from_env(job="bench")
        os.environ[places.ENV_DISABLE] = "1"
        off = Watch.from_env(job="bench")
        del os.environ[places.ENV_DISABLE], os.environ[places.ENV_RING_DIR]
        yield from _steps(on, off)
        yield _collectives(on, off)
        on.close()
    yield from _import()


def _steps(on: Watch, off: Watch) -> Iterator[Result]:
    bare = microseconds(_bare_steps, STEPS)
    cost = microseconds(_watched_steps(on), STEPS) - bare
    disabled = microseconds(_watched_steps(off), STEPS) - bare
    yield Result(
        "hooks, per step with 6 phases",
        f"{cost:.2f} µs",
        "7 µs",
        f"switched off {disabled:.2f} µs; {cost / 1e5:.4%} of a 100 ms step",
    )
    with_metrics = microseconds(_watched_steps(on, METRICS), STEPS) - bare
    yield Result(
        "hooks, 8 metrics in that step",
        f"{with_metrics - cost:.2f} µs",
        "2 µs",
        f"{with_metrics / cost:.2f} times the step without them",
    )
    for title, spent in beside.measure(on):
        shown = "not installed" if math.isnan(spent) else f"{spent - bare:.2f} µs"
        ratio = "" if math.isnan(spent) else f"{(spent - bare) / cost:.2f} times the hooks"
        yield Result(f"beside it: {title}", shown, "", ratio)


def _import() -> Iterator[Result]:
    """Measure the best of several fresh interpreters with bytecode, as an installed package has
    it."""
    loaded = "torch" if importlib.util.find_spec("torch") is not None else "numpy"
    program = (
        f"import gc, time, {loaded}\n{{pause}}\nbegan = time.perf_counter()\n"
        "import stepwatch.hooks\nprint((time.perf_counter() - began) * 1e3)"
    )
    environ = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {"": [], "gc.disable()": []}
    with tempfile.TemporaryDirectory() as cache:
        environ["PYTHONPYCACHEPREFIX"] = cache
        for _ in range(6):  # the first one compiles
            for pause, spent in times.items():
                command = [sys.executable, "-c", program.format(pause=pause)]
                ended = subprocess.run(
                    command, env=environ, capture_output=True, text=True, check=True
                )
                spent.append(float(ended.stdout))
    ours, paused = (min(spent) for spent in times.values())
    yield Result(
        f"importing stepwatch.hooks, after {loaded}",
        f"{ours:.0f} ms",
        "25 ms",
        f"{paused:.0f} ms if the trainer has paused the garbage collector",
    )


def _bare_steps(count: int) -> None:
    for _ in range(count):
        for _name in PHASES:
            pass


def _watched_steps(
    watch: Watch, metrics: Mapping[str, float] = MappingProxyType({})
) -> Callable[[int], None]:
    def loop(count: int) -> None:
        for _ in range(count):
            with watch.step(tokens=4096) as step:
                for name in PHASES:
                    with step.phase(name):
                        pass
                step.record(loss=1.0, **metrics)

    return loop


class _Tensor:
    nbytes = 4096


class _NoCollective:
    """Replaces FSDP2's communication object and does nothing: only the hook costs."""

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any) -> None:
        return None


class _PlainWrapper:
    """Calls another object and does nothing else."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any) -> Any:
        return self._inner(output_tensor, input_tensor, group)


class _Parameters:
    """Replaces FSDP2's parameter group, which holds its communication objects."""

    _all_gather_comm: Any = None


def _collectives(on: Watch, off: Watch) -> Result:
    inner = _NoCollective()
    bare = microseconds(_calls(inner), STEPS)
    plain = microseconds(_calls(_PlainWrapper(inner)), STEPS) - bare
    cost, disabled = (
        microseconds(_calls(_timed(watch, inner)), STEPS) - bare for watch in (on, off)
    )
    return Result(
        "hooks, per collective (FSDP2 path)",
        f"{cost:.2f} µs",
        "1.5 µs",
        f"switched off {disabled:.2f} µs; a wrapper that only calls {plain:.2f} µs",
    )


def _timed(watch: Watch, inner: Any) -> TimedCommunication:
    parameters = _Parameters()
    timed = TimedCommunication(watch.instruments, inner, Op.ALL_GATHER, parameters)
    parameters._all_gather_comm = timed
    return timed


def _calls(call: Any) -> Callable[[int], None]:
    tensor = _Tensor()

    def turns(count: int) -> None:
        for _ in range(count):
            call(tensor, tensor, None)

    return turns
