"""Host time of the hooks, in one run with alternatives and with nothing."""

from __future__ import annotations

import importlib.util
import os
import re
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

from .result import Result, microseconds

PHASES = ("data", "forward", "backward", "optimizer", "other", "eval")
STEPS = 5_000
METRICS = {f"metric_{number}": 0.5 * number for number in range(8)}


def measure() -> Iterator[Result]:
    """Measure a step with six phases, the same under other tools, one collective, and the
    import."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ[places.ENV_RING_DIR] = folder
        on = Watch.from_env(job="bench")
        os.environ[places.ENV_DISABLE] = "1"
        off = Watch.from_env(job="bench")
        del os.environ[places.ENV_DISABLE], os.environ[places.ENV_RING_DIR]
        yield from _steps(on, off)
        yield _collectives(on, off)
        on.close()
    yield _import()


def _steps(on: Watch, off: Watch) -> Iterator[Result]:
    bare = microseconds(_bare_steps, STEPS)
    cost = microseconds(_watched_steps(on), STEPS) - bare
    disabled = microseconds(_watched_steps(off), STEPS) - bare
    yield Result(
        "hooks, per step with 6 phases",
        f"{cost:.1f} µs",
        "10 µs",
        f"switched off {disabled:.1f} µs; {cost / 1e5:.4%} of a 100 ms step",
    )
    with_metrics = microseconds(_watched_steps(on, METRICS), STEPS) - bare
    yield Result(
        "hooks, 8 metrics in that step",
        f"{with_metrics - cost:.1f} µs",
        "2 µs",
        f"{with_metrics / cost:.2f} times the step without them",
    )
    spans = _opentelemetry_steps() - bare
    yield _alternative("an OpenTelemetry span per phase, same step", spans, cost)
    yield _alternative(
        "torch.profiler, default schedule, same step", _profiled_steps() - bare, cost
    )


def _alternative(title: str, alternative_us: float, ours: float) -> Result:
    if alternative_us != alternative_us:
        return Result(title, "not installed", "", "")
    return Result(
        title, f"{alternative_us:.1f} µs", "", f"{alternative_us / ours:.0f} times the hooks"
    )


def _opentelemetry_steps() -> float:
    """Measure a span per step and phase through the SDK's batch processor; the exporter drops
    all."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    except ImportError:
        return float("nan")

    class Nowhere:
        def export(self, _spans: Any) -> Any:
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None:
            pass

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    tracer = provider.get_tracer("bench")

    def loop(count: int) -> None:
        for _ in range(count):
            with tracer.start_as_current_span("step") as step:
                for name in PHASES:
                    with tracer.start_as_current_span(name):
                        pass
                step.set_attribute("loss", 1.0)

    spent = microseconds(loop, STEPS // 10)
    provider.shutdown()
    return spent


def _profiled_steps() -> float:
    """Measure `record_function` per phase under a running profiler, whose start and stop are
    untimed."""
    if importlib.util.find_spec("torch") is None:
        return float("nan")
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]) as profiler:

        def loop(count: int) -> None:
            for _ in range(count):
                for name in PHASES:
                    with record_function(name):
                        pass
                profiler.step()

        return microseconds(loop, STEPS // 10)


def _import() -> Result:
    """Measure the best of several fresh interpreters with bytecode, as an installed package has
    it."""
    command = [sys.executable, "-X", "importtime", "-c", "import numpy, stepwatch.hooks"]
    line = re.compile(r"\|\s+(\d+) \| (numpy|stepwatch\.hooks)$", re.MULTILINE)
    times: dict[str, list[int]] = {"numpy": [], "stepwatch.hooks": []}
    environ = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as cache:
        environ["PYTHONPYCACHEPREFIX"] = cache
        for _ in range(8):  # the first one compiles
            ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
            for spent, name in line.findall(ended.stderr):
                times[name].append(int(spent))
    ours, numpy = (min(times[name]) / 1e3 for name in ("stepwatch.hooks", "numpy"))
    return Result(
        "importing stepwatch.hooks, beyond numpy",
        f"{ours:.0f} ms",
        "50 ms",
        f"numpy {numpy:.0f} ms",
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


def _collectives(on: Watch, off: Watch) -> Result:
    tensor = _Tensor()
    inner = _NoCollective()

    def loop(call: Any) -> Callable[[int], None]:
        def turns(count: int) -> None:
            for _ in range(count):
                call(tensor, tensor, None)

        return turns

    bare = microseconds(loop(inner), STEPS)
    cost = (
        microseconds(loop(TimedCommunication(on.instruments, inner, Op.ALL_GATHER, ())), STEPS)
        - bare
    )
    disabled = (
        microseconds(loop(TimedCommunication(off.instruments, inner, Op.ALL_GATHER, ())), STEPS)
        - bare
    )
    return Result(
        "hooks, per collective (FSDP2 path)",
        f"{cost:.1f} µs",
        "3 µs",
        f"switched off {disabled:.1f} µs; 3.4-5.6 µs for plain Python hooks",
    )
