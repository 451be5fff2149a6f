"""Device faults. The host injects a fault when it enqueues the step that the fault hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from stepwatch.faults import Injector
from stepwatch.faults.specs import Fault, parse_fault
from tests.simulated_device import device as sim
from tests.simulated_device.control import Hang

ENDLESS_SECONDS = 3600.0


@dataclass(frozen=True)
class SlowClock(Fault):
    """All work on the rank's device takes `factor` times as long, as at a lower clock."""

    name: ClassVar[str] = "slow-clock"
    point: ClassVar[str] = "device"
    factor: float = 2.0


@dataclass(frozen=True)
class SlowKernel(Fault):
    """One kernel of the rank's forward takes `seconds` longer."""

    name: ClassVar[str] = "slow-kernel"
    point: ClassVar[str] = "device"
    seconds: float = 0.1


@dataclass(frozen=True)
class SlowLink(Fault):
    """Collectives of the rank's groups take `seconds` longer after every rank has arrived."""

    name: ClassVar[str] = "slow-link"
    point: ClassVar[str] = "device"
    seconds: float = 0.1


@dataclass(frozen=True)
class StuckKernel(Fault):
    """One kernel of the rank's forward or backward never ends, while its host proceeds."""

    name: ClassVar[str] = "stuck-kernel"
    point: ClassVar[str] = "device"
    phase: str = "forward"


@dataclass(frozen=True)
class StuckCollective(Fault):
    """The next collective never ends on the rank's device, while all hosts proceed."""

    name: ClassVar[str] = "stuck-collective"
    point: ClassVar[str] = "device"


DEVICE_FAULTS: dict[str, type[Fault]] = {
    kind.name: kind for kind in (SlowClock, SlowKernel, SlowLink, StuckKernel, StuckCollective)
}


def device_fault(described: dict[str, Any]) -> Fault:
    """Return the fault that `{"name": ..., **fields}` describes.

    Raises:
        KeyError: there is no fault of that name.
        TypeError: the fault has no such field.
    """
    fields = dict(described)
    return DEVICE_FAULTS[fields.pop("name")](**fields)


def injector(
    on_host: Sequence[str], on_device: Sequence[dict[str, Any]], rank: int, log: Path
) -> Injector:
    """Return an injector with the host faults and the device faults of one rank."""
    faults = [fault for text in on_host if (fault := parse_fault(text)) is not None]
    faults += [device_fault(described) for described in on_device]
    return Injector(faults, rank=rank, attempt=0, log=log)


class DeviceFaults:
    """Puts the faults of one rank into effect on its device; call `begin` in each step."""

    def __init__(self, inject: Injector, link_seconds: float) -> None:
        self._inject = inject
        self._link_seconds = link_seconds
        self._longer = 0.0
        self._stuck = ""

    def begin(self, step: int) -> None:
        """Trigger the faults of `step`, which the host begins to enqueue."""
        due = self._inject.due
        if slow := due(SlowClock, step):
            sim.set_slow(slow.factor)
        if link := due(SlowLink, step):
            sim.set_link(self._link_seconds + link.seconds)
        if kernel := due(SlowKernel, step):
            self._longer = kernel.seconds
        if stuck := due(StuckKernel, step):
            self._stuck = stuck.phase
        if due(StuckCollective, step):
            sim.hang(Hang.COLLECTIVE)

    def longer(self, phase: str) -> float:
        """Return the extra seconds of the afflicted kernel in `phase`."""
        if self._stuck == phase:
            self._stuck = ""
            return ENDLESS_SECONDS
        return self._longer if phase == "forward" else 0.0
