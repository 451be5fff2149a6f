"""The plan of one run: its phase times, and its awkward but healthy events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.verdicts.device.work import DeviceWork


@dataclass(frozen=True)
class Plan:
    """One run of one workload.

    Seconds are host time; `*_every` and `*_steps` count steps, 0 is never.
    `workload` is `loop`, the bare DDP loop, `trainer`, the reference trainer, which takes `flags`
    instead of the fields below them, `device`, a loop on the simulated device that `device`
    describes further, or `outside`, a DDP loop whose faults come from outside.
    """

    job: str
    world: int = 4
    seed: int = 0
    workload: str = "loop"
    faults: tuple[str, ...] = ()
    steps: int = 40
    flags: tuple[str, ...] = ()
    data_seconds: float = 0.004
    forward_seconds: float = 0.05
    backward_seconds: float = 0.04
    first_seconds: float = 0.0
    eval_every: int = 0
    eval_seconds: float = 1.0
    epoch_steps: int = 0
    epoch_seconds: float = 0.8
    checkpoint_every: int = 0
    checkpoint_seconds: float = 0.05
    rate_drop_step: int = 0
    neighbours: int = 0
    """Number of busy processes that compete with the ranks for a while."""
    device: DeviceWork = field(default_factory=DeviceWork)
    port: int = 0
    folder: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    def described_faults(self) -> list[str]:
        """Return the faults of hosts and devices as `name:key=value,...`."""
        return [*self.faults, *self.device.described_faults()]

    def line(self) -> str:
        """Return the plan as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"


def read_plan(line: str) -> Plan:
    """Read `Plan.line()` back."""
    values: dict[str, Any] = json.loads(line)
    for name in ("faults", "flags"):
        values[name] = tuple(values[name])
    device = values["device"]
    values["device"] = DeviceWork(**{**device, "faults": tuple(device["faults"])})
    return Plan(**values)
