"""Host time of the hooks, beside the same loop without them and with them switched off."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.fsdp2 import TimedCommunication
from stepwatch.signals import places
from stepwatch.signals.records import Op

from .result import Result, microseconds

PHASES = ("data", "forward", "backward", "optimizer", "other", "eval")
STEPS = 5_000


def measure() -> Iterator[Result]:
    """A step with six phases, and one collective."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ[places.ENV_RING_DIR] = folder
        on = Watch.from_env(job="bench")
        os.environ[places.ENV_DISABLE] = "1"
        off = Watch.from_env(job="bench")
        del os.environ[places.ENV_DISABLE], os.environ[places.ENV_RING_DIR]
        yield _steps(on, off)
        yield _collectives(on, off)
        on.close()


def _steps(on: Watch, off: Watch) -> Result:
    bare = microseconds(_bare_steps, STEPS)
    cost = microseconds(_watched_steps(on), STEPS) - bare
    disabled = microseconds(_watched_steps(off), STEPS) - bare
    return Result(
        "hooks, per step with 6 phases",
        f"{cost:.1f} µs",
        "10 µs",
        f"switched off {disabled:.1f} µs; {cost / 1e5:.4%} of a 100 ms step",
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


class _Tensor:
    nbytes = 4096


class _NoCollective:
    """Stands where FSDP2's communication object stands, and does nothing: only the hook costs."""

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
    cost = microseconds(loop(TimedCommunication(on, inner, Op.ALL_GATHER)), STEPS) - bare
    disabled = microseconds(loop(TimedCommunication(off, inner, Op.ALL_GATHER)), STEPS) - bare
    return Result(
        "hooks, per collective (FSDP2 path)",
        f"{cost:.1f} µs",
        "5 µs",
        f"switched off {disabled:.1f} µs; 3.4-5.6 µs for plain Python hooks",
    )
