"""Faults of a simulated fleet; the collector must find each fault's nature from the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stepwatch.faults.specs import Fault, parse_fault


@dataclass(frozen=True)
class Simulated(Fault):
    """A fault on `rank`, or on its node; it begins after the collector's baseline."""

    step: int = 60


@dataclass(frozen=True)
class Slower(Simulated):
    """A phase takes `factor` times as long."""

    factor: float = 2.0


@dataclass(frozen=True)
class SlowCompute(Slower):
    """The rank's forward and backward take `factor` times as long, as on a throttled device."""

    name: ClassVar[str] = "slow-compute"
    point: ClassVar[str] = "compute"


@dataclass(frozen=True)
class SlowData(Slower):
    """The rank waits `factor` times as long for its batches, as on slow storage."""

    name: ClassVar[str] = "slow-data"
    point: ClassVar[str] = "data"
    factor: float = 12.0


@dataclass(frozen=True)
class SlowLink(Slower):
    """Transfers between nodes take `factor` times as long: the rank's node has a bad link.

    Its TCP retransmits segments.
    """

    name: ClassVar[str] = "slow-link"
    point: ClassVar[str] = "transfer"
    factor: float = 6.0


@dataclass(frozen=True)
class SlowNode(Slower):
    """All ranks on the rank's node compute `factor` times as long: a hypervisor steals its CPUs."""

    name: ClassVar[str] = "slow-node"
    point: ClassVar[str] = "compute"


@dataclass(frozen=True)
class Hang(Simulated):
    """The rank falls asleep in the forward of that step; the others wait forever."""

    name: ClassVar[str] = "hang"
    point: ClassVar[str] = "forward"


@dataclass(frozen=True)
class Kill(Simulated):
    """The rank is killed in the forward of that step; the launcher ends the others soon after."""

    name: ClassVar[str] = "kill"
    point: ClassVar[str] = "forward"


FAULTS: dict[str, type[Fault]] = {
    kind.name: kind for kind in (SlowCompute, SlowData, SlowLink, SlowNode, Hang, Kill)
}
"""All faults for the simulation, by name."""


def parse(text: str) -> Fault | None:
    """Parse `name[:key=value,...]`; `none` is not a fault.

    Raises:
        UsageError: unknown name or key, or an invalid value; the message names the nearest match.
    """
    return parse_fault(text, FAULTS)
