"""What every probe offers, and what it is given."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.signals.clock import Clock
from stepwatch.signals.names import Metric
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows

DEFAULT_KERNEL_LOG = Path("/dev/kmsg")


class Unknown(StrEnum):
    """Why a reading is unknown, as the metric label `reason` says it."""

    NO_SOURCE = "no-source"
    """The source was there and is no longer, for example an unloaded driver."""
    UNREADABLE = "unreadable"
    INVALID = "invalid"
    """The source was read and held what it cannot mean."""
    LATE = "late"
    """The read did not come back within the probe's deadline: its process was killed."""
    FAILED = "failed"
    """The probe's process ended, or raised what no probe may raise."""


class RankProcesses:
    """Process ids of the ranks that this node runs, as the newest flush found them, and by process
    the PCI addresses of the devices that it computes on, as the newest reading of devices has it.
    """

    def __init__(self) -> None:
        self.pids: frozenset[int] = frozenset()
        self.devices: dict[int, tuple[str, ...]] = {}

    def __call__(self) -> frozenset[int]:
        """The process ids."""
        return self.pids

    def encode(self) -> bytes:
        """For the process of a probe."""
        devices = {pid: addresses for pid, addresses in self.devices.items() if pid in self.pids}
        return json.dumps([sorted(self.pids), sorted(devices.items())]).encode()

    def decode(self, data: bytes) -> None:
        """Take what `encode` made."""
        pids, devices = json.loads(data)
        self.pids = frozenset(pids)
        self.devices = {pid: tuple(addresses) for pid, addresses in devices}


@dataclass(frozen=True)
class ProbeContext:
    """What a probe may use: the clock, the ranks that this node runs now, where `/proc` lies.

    `ranks` is for probes that are not isolated; the others know processes only.
    """

    clock: Clock
    ranks: Callable[[], Sequence[WatchedRank]] = tuple
    rank_processes: RankProcesses = field(default_factory=RankProcesses)
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    kernel_log: Path = DEFAULT_KERNEL_LOG
    dcgm: str = ""
    """URL of a dcgm-exporter's metrics, empty for none."""


class Gauge(NamedTuple):
    """One sample for `/metrics`; `labels` are the values after the node. NaN is left out."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class Probe(ABC):
    """Reads one source on the node, once a flush.

    `name` is a metric label, `kind` the record kind of the rows. `expendable` says whether a full
    spool may drop the rows.

    An isolated probe is read in a process of its own: what it keeps between two reads stays there,
    and `close` is called there. It is built there anew, so what it is built with is a path, a
    number, a text, the clock or the `rank_processes` of the context. A read that lasts longer than
    `deadline_seconds` makes the reading unknown, and its process is killed. The first read of a
    process may last `first_seconds`.
    Only what reads this process's own memory, and files that never wait, need not be isolated.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    expendable: ClassVar[bool] = True
    isolated: ClassVar[bool] = True
    deadline_seconds: ClassVar[float] = 5.0
    first_seconds: ClassVar[float] = 10.0
    yields_to: ClassVar[str] = ""
    """Name of a probe of the same source or devices: its facts of a device stand alone where it
    reads the device, and so does that it hangs."""

    built_with: tuple[tuple[object, ...], dict[str, object]]
    """What its constructor was given: a process of its own makes it anew of the same."""

    def __new__(cls, *arguments: object, **named: object) -> Self:
        """Make a probe, and remember of what."""
        probe = super().__new__(cls)
        probe.built_with = arguments, named
        return probe

    @classmethod
    def is_enabled(cls, context: ProbeContext) -> bool:
        """Whether this node is to have the probe."""
        return True

    @classmethod
    @abstractmethod
    def build(cls, context: ProbeContext) -> Self:
        """Make the probe of this node; opens nothing yet."""

    @abstractmethod
    def supported(self) -> bool:
        """Whether this node has the source at all."""

    @abstractmethod
    def read(self) -> Rows:
        """Read the source once.

        Raises:
            OSError: the source is there but cannot be read now; that is unknown, not healthy.
            ValueError: the source holds what it cannot mean.
        """

    def rows_of(self, rows: Rows, ranks: Sequence[WatchedRank]) -> Rows:
        """The part of a reading that goes into the segment of an attempt with these ranks."""
        return rows

    def owners(self) -> Sequence[Collection[int]]:
        """Ids of the processes that each row of the newest reading is about, as a device is about
        those that compute on it; empty where no row is about a process."""
        return ()

    def facts(self) -> Sequence[Sighting]:
        """What the newest read found wrong."""
        return ()

    def gauges(self, rows: Rows) -> Iterable[Gauge]:
        """Samples for `/metrics` from these rows; of an isolated probe, from nothing else."""
        return ()

    def close(self) -> None:
        """Release the source."""
        return
