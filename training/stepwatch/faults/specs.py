"""The available faults, and the text that names one: `name[:key=value,...]`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint


@dataclass(frozen=True)
class Fault:
    """A fault on one rank in one attempt, from `step` until before `until`.

    `until` 0 means to the end. `point` is the point in the step at which it triggers.
    """

    name: ClassVar[str]
    point: ClassVar[str]

    rank: int = 2
    step: int = 20
    until: int = 0
    attempt: int = 0

    def active(self, step: int) -> bool:
        """Return whether the fault triggers in this step."""
        return step >= self.step and (self.until == 0 or step < self.until)

    def describe(self) -> str:
        """Return the fault as text that `parse_fault` reads."""
        values = ",".join(f"{key}={value}" for key, value in dataclasses.asdict(self).items())
        return f"{self.name}:{values}"


@dataclass(frozen=True)
class Slowness(Fault):
    """An operation takes `seconds` longer in each `every`-th step, counted from `step`."""

    seconds: float = 0.15
    every: int = 1

    def active(self, step: int) -> bool:
        """Return whether the fault triggers in this step."""
        return super().active(step) and (step - self.step) % self.every == 0


@dataclass(frozen=True)
class SlowCompute(Slowness):
    """The rank's forward takes `seconds` longer per microbatch, as on a throttled device."""

    name: ClassVar[str] = "slow-compute"
    point: ClassVar[str] = "forward"


@dataclass(frozen=True)
class StageImbalance(Slowness):
    """Forward takes longer on every rank in `rank`'s pipeline stage."""

    name: ClassVar[str] = "stage-imbalance"
    point: ClassVar[str] = "forward"


@dataclass(frozen=True)
class SlowData(Slowness):
    """The rank's loader takes `seconds` longer per batch, as on slow storage."""

    name: ClassVar[str] = "slow-data"
    point: ClassVar[str] = "data"
    seconds: float = 0.5


@dataclass(frozen=True)
class SlowCollective(Slowness):
    """The rank arrives in time, but one of its collectives moves data `seconds` longer: a bad link.

    Every rank in the collective leaves it later, too.
    """

    name: ClassVar[str] = "slow-collective"
    point: ClassVar[str] = "transfer"
    seconds: float = 0.3


@dataclass(frozen=True)
class SkewedShard(Fault):
    """The rank's samples are `ratio` times as long as its peers'."""

    name: ClassVar[str] = "skewed-shard"
    point: ClassVar[str] = "shard"
    ratio: float = 1.6


@dataclass(frozen=True)
class CheckpointStall(Slowness):
    """The rank's checkpoints stall the loop `seconds` longer, as on shared storage."""

    name: ClassVar[str] = "checkpoint-stall"
    point: ClassVar[str] = "checkpoint:begin"
    seconds: float = 5.0


@dataclass(frozen=True)
class MemoryGrowth(Fault):
    """The rank allocates `nbytes` more host memory in every step and touches it."""

    name: ClassVar[str] = "memory-growth"
    point: ClassVar[str] = "step"
    nbytes: int = 1 << 24


@dataclass(frozen=True)
class Hang(Fault):
    """The rank sleeps before its collectives for `seconds`, once."""

    name: ClassVar[str] = "hang"
    point: ClassVar[str] = "forward"
    seconds: float = 3600.0


@dataclass(frozen=True)
class GilLock(Hang):
    """Like `hang`, but asleep in native code that keeps the interpreter lock: no thread runs."""

    name: ClassVar[str] = "gil-lock"


@dataclass(frozen=True)
class WrongOrder(Fault):
    """The rank issues two collectives in that step in swapped order."""

    name: ClassVar[str] = "wrong-order"
    point: ClassVar[str] = "order"


@dataclass(frozen=True)
class WrongShape(Fault):
    """The rank passes a tensor with another shape to one collective in that step."""

    name: ClassVar[str] = "wrong-shape"
    point: ClassVar[str] = "shape"


@dataclass(frozen=True)
class Stop(Fault):
    """The rank's process is stopped (SIGSTOP), as by a debugger or a frozen cgroup; once."""

    name: ClassVar[str] = "stop"
    point: ClassVar[str] = "step"


@dataclass(frozen=True)
class Kill(Fault):
    """The rank's process is killed (SIGKILL), as by the kernel's OOM killer.

    `stage` names the checkpoint stage to die at, instead of the start of the step.
    """

    name: ClassVar[str] = "kill"
    point: ClassVar[str] = "step"
    stage: str = ""


@dataclass(frozen=True)
class NanGradients(Fault):
    """One of the rank's own gradients holds a NaN before the ranks sum their gradients; once."""

    name: ClassVar[str] = "nan-gradients"
    point: ClassVar[str] = "gradients"


@dataclass(frozen=True)
class FlipBit(Fault):
    """One bit in the rank's first parameter flips in that step, as in silent data corruption.

    `bit` counts from the lowest and wraps at the width of the parameter's type.
    """

    name: ClassVar[str] = "flip-bit"
    point: ClassVar[str] = "parameters"
    bit: int = 22


_HIGHEST_BIT = 31

FAULTS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        SlowCompute,
        StageImbalance,
        SlowData,
        SlowCollective,
        SkewedShard,
        CheckpointStall,
        MemoryGrowth,
        Hang,
        GilLock,
        WrongOrder,
        WrongShape,
        Stop,
        Kill,
        NanGradients,
        FlipBit,
    )
}
"""Every fault by name."""


def parse_fault(text: str, kinds: Mapping[str, type[Fault]] = FAULTS) -> Fault | None:
    """Read `name[:key=value,...]`, where `name` is a key in `kinds`; `none` returns None.

    Raises:
        UsageError: unknown name or key, or an invalid value; names the nearest valid one.
    """
    name, _, options = text.partition(":")
    if name == "none" and not options:
        return None
    kind = kinds.get(name)
    if kind is None:
        raise UsageError(f"no fault {name!r}; {closest_hint(name, [*kinds, 'none'])}")
    types = {field.name: type(field.default) for field in dataclasses.fields(kind)}
    values: dict[str, int | float | str] = {}
    for pair in filter(None, options.split(",")):
        key, separator, value = pair.partition("=")
        if not separator or key not in types:
            raise UsageError(f"fault {name} has no option {key!r}; {closest_hint(key, types)}")
        if key in values:
            raise UsageError(f"fault {name}: {key} is given twice; keep one")
        values[key] = _convert(name, key, value, types[key])
    fault = kind(**values)  # type: ignore[arg-type]
    if 0 < fault.until <= fault.step:
        raise UsageError(f"fault {name}: until must be 0 or after step {fault.step}")
    if isinstance(fault, Slowness) and fault.every < 1:
        raise UsageError(f"fault {name}: every must be at least 1")
    if isinstance(fault, FlipBit) and fault.bit > _HIGHEST_BIT:
        raise UsageError(f"fault {name}: bit must be 0 to {_HIGHEST_BIT}")
    return fault


def _convert(name: str, key: str, value: str, kind: type) -> int | float | str:
    try:
        converted: int | float | str = kind(value)
    except ValueError as error:
        raise UsageError(f"fault {name}: {key}={value!r} is not a number") from error
    if not isinstance(converted, str) and (not math.isfinite(converted) or converted < 0):
        raise UsageError(f"fault {name}: {key}={value!r} must be a number from 0 up")
    return converted
