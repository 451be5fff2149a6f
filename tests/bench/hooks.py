"""Host time of the hooks, in one run with alternatives and with nothing."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.collectives.fsdp2 import TimedCommunication
from stepwatch.hooks.core import CORE, choice
from stepwatch.signals import places
from stepwatch.signals.records import Op

from . import hooks_beside as beside
from .result import Result, microseconds

PHASES, STEPS = beside.PHASES, beside.STEPS
BESIDE = "beside it: "
BUDGETS = ((choice.NATIVE, "2 µs", "0.2 µs"), (choice.PYTHON, "7 µs", "1.5 µs"))
METRICS = {f"metric_{number}": 0.5 * number for number in range(8)}


def measure() -> Iterator[Result]:
    """Measure a step with six phases, its parts and other tools, one collective, and the import."""
    times = {core: _times_of(core) for core in (choice.NATIVE, choice.PYTHON)}
    times = {core: measured for core, measured in times.items() if measured}
    for core, budget, collective_budget in BUDGETS:
        if core in times:
            yield from _rows(core, times[core], budget, collective_budget)
    fastest = next(iter(times.values()))
    for title, spent in fastest.items():
        if title.startswith(BESIDE):
            shown = "not installed" if math.isnan(spent) else f"{spent:.2f} µs"
            ratios = [
                f"{spent / own['step']:.2f} times the {core} core" for core, own in times.items()
            ]
            yield Result(title, shown, "", "" if math.isnan(spent) else "; ".join(ratios))
    yield from _import()


def _rows(
    core: str, times: dict[str, float], budget: str, collective_budget: str
) -> Iterator[Result]:
    cost, disabled = times["step"], times["off"]
    yield Result(
        f"hooks, per step with 6 phases, {core} core",
        f"{cost:.2f} µs",
        budget,
        f"switched off {disabled:.2f} µs; {cost / 1e5:.4%} of a 100 ms step",
    )
    yield Result(
        f"hooks, 8 metrics in that step, {core} core",
        f"{times['metrics'] - cost:.2f} µs",
        "2 µs",
        f"{times['metrics'] / cost:.2f} times the step without them",
    )
    yield Result(
        f"hooks, per collective (FSDP2 path), {core} core",
        f"{times['collective']:.2f} µs",
        collective_budget,
        f"switched off {times['collective off']:.2f} µs; "
        f"a wrapper that only calls {times['wrapper']:.2f} µs",
    )


def _times_of(core: str) -> dict[str, float]:
    """Measure one core in a process of its own; empty if it does not load."""
    environ = {**os.environ, choice.ENV_CORE: core, "STEPWATCH_QUIET": "1"}
    words = [sys.executable, "-m", "tests.bench.hooks"]
    ended = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return times if times.pop(core, None) else {}


def main() -> None:
    """Measure the core that runs, and print one line of JSON: µs above the bare loop."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ[places.ENV_RING_DIR] = folder
        on = Watch.from_env(job="bench")
        os.environ[places.ENV_DISABLE] = "1"
        off = Watch.from_env(job="bench")
        bare = microseconds(_bare_steps, STEPS)
        times = {
            CORE: 1.0,
            "step": microseconds(_watched_steps(on), STEPS) - bare,
            "off": microseconds(_watched_steps(off), STEPS) - bare,
            "metrics": microseconds(_steps_with_metrics(on), STEPS) - bare,
            **_collectives(on, off),
        }
        times |= {f"{BESIDE}{title}": spent - bare for title, spent in beside.measure(on)}
        on.close()
    print(json.dumps(times))


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


def _watched_steps(watch: Watch) -> Callable[[int], None]:
    def loop(count: int) -> None:
        for _ in range(count):
            with watch.step(tokens=4096) as step:
                for name in PHASES:
                    with step.phase(name):
                        pass
                step.record(loss=1.0)

    return loop


def _steps_with_metrics(watch: Watch) -> Callable[[int], None]:
    def loop(count: int) -> None:
        for _ in range(count):
            with watch.step(tokens=4096) as step:
                for name in PHASES:
                    with step.phase(name):
                        pass
                step.record(loss=1.0, **METRICS)

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


def _collectives(on: Watch, off: Watch) -> dict[str, float]:
    inner = _NoCollective()
    bare = microseconds(_calls(inner), STEPS)
    calls = {"wrapper": _PlainWrapper(inner), "collective": _timed(on, inner)}
    calls["collective off"] = _timed(off, inner)
    return {name: microseconds(_calls(call), STEPS) - bare for name, call in calls.items()}


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


if __name__ == "__main__":
    main()
