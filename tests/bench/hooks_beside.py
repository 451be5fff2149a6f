"""What a step of the hooks is compared with, in the same run: its least parts, and other tools."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind

from .result import microseconds

PHASES = ("data", "forward", "backward", "optimizer", "other", "eval")
STEPS = 5_000
_STEP_BODY = (0,) * 13 + (1.0, float("nan"))


def measure(on: Watch) -> Iterator[tuple[str, float]]:
    """Yield each comparison and its µs per step; NaN if its package is not installed."""
    yield "12 clock readings", microseconds(_clock_readings, STEPS)
    yield "a record appended to the ring", _appends(on)
    yield "context managers that do nothing", microseconds(_no_context_managers, STEPS)
    yield "record_function per phase, no profiler", _record_functions()
    yield "torch.profiler, default schedule", _profiled_steps()
    yield "an OpenTelemetry span per phase", _opentelemetry_steps()


def _clock_readings(count: int) -> None:
    clock = time.monotonic_ns
    for _ in range(count):
        for _name in PHASES:
            clock()
            clock()


def _appends(on: Watch) -> float:
    ring = on.recorder.ring
    assert ring is not None
    append, kind = ring.append, int(Kind.STEP)

    def loop(count: int) -> None:
        for number in range(count):
            for _name in PHASES:
                pass
            append(kind, (number, number, *_STEP_BODY))

    return microseconds(loop, STEPS)


def _no_context_managers(count: int) -> None:
    nothing = nullcontext()
    for _ in range(count):
        with nothing:
            for _name in PHASES:
                with nothing:
                    pass


def _record_functions() -> float:
    if importlib.util.find_spec("torch") is None:
        return float("nan")
    from torch.profiler import record_function

    def loop(count: int) -> None:
        for _ in range(count):
            for name in PHASES:
                with record_function(name):
                    pass

    return microseconds(loop, STEPS // 10)


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
