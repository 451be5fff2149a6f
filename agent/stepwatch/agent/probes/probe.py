"""The probe interface and its inputs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.clock import Clock
from stepwatch.signals.names import Metric
from stepwatch.signals.records import Kind, Values

if TYPE_CHECKING:
    from stepwatch.agent.rings.tail import WatchedRank
    from stepwatch.signals.wire import Rows

DEFAULT_KERNEL_LOG = Path("/dev/kmsg")


class Unknown(StrEnum):
    """Reason for an unknown reading, as in the metric label `reason`."""

    NO_SOURCE = "no-source"
    """The source was present and is gone, for example an unloaded driver."""
    UNREADABLE = "unreadable"
    INVALID = "invalid"
    """The source was read and held an invalid value."""
    LATE = "late"
    """The read exceeded the probe's deadline: its process was killed."""
    FAILED = "failed"
    """The probe's process ended or raised an unexpected error."""


class RankProcesses:
    """The local ranks' process ids from the newest flush, with their devices.

    `devices` maps a process id to the PCI addresses it computes on, from the newest device reading.
    """

    def __init__(self) -> None:
        self.pids: frozenset[int] = frozenset()
        self.devices: dict[int, tuple[str, ...]] = {}

    def __call__(self) -> frozenset[int]:
        """Return the process ids."""
        return self.pids

    def encode(self) -> str:
        """Return the state for a probe's process."""
        devices = {pid: addresses for pid, addresses in self.devices.items() if pid in self.pids}
        return json.dumps([sorted(self.pids), sorted(devices.items())])

    def decode(self, data: str) -> None:
        """Apply a state from `encode`."""
        pids, devices = json.loads(data)
        self.pids = frozenset(pids)
        self.devices = {pid: tuple(addresses) for pid, addresses in devices}


class ProbeContext:
    """A probe's inputs: the clock, the local ranks and the `/proc` path.

    `ranks` is for probes that are not isolated; isolated ones get process ids only.
    """

    def __init__(
        self,
        clock: Clock,
        ranks: Callable[[], Sequence[WatchedRank]] = tuple,
        rank_processes: RankProcesses | None = None,
        *,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        kernel_log: Path = DEFAULT_KERNEL_LOG,
        dcgm: str = "",
    ) -> None:
        self.clock = clock
        self.ranks = ranks
        self.rank_processes = rank_processes or RankProcesses()
        self.proc, self.sys = proc, sys
        self.kernel_log = kernel_log
        self.dcgm = dcgm
        """URL for a dcgm-exporter's metrics, empty for none."""


class Gauge(NamedTuple):
    """One sample for `/metrics`; `labels` are the values after the node. NaN is left out."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


class Probe(ABC):
    """Read one source on the node, once per flush or less often (`every_seconds`).

    `name` is a metric label, `kind` the rows' record kind. `expendable` says whether a full spool
    may drop the rows.

    An isolated probe runs in another process: its state stays there, and `close` is called there.
    It is built again there, so its constructor arguments are paths, numbers, texts, the clock or
    the context's `rank_processes`. A read beyond `deadline_seconds` makes the reading unknown; the
    next one runs in a process of the probe's own, which is killed if it is late. A process's first
    read may take `first_seconds`. A probe needs no
    isolation if it reads only this process's memory and files that never block.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    expendable: ClassVar[bool] = True
    isolated: ClassVar[bool] = True
    deadline_seconds: ClassVar[float] = 5.0
    first_seconds: ClassVar[float] = 10.0
    every_seconds: ClassVar[float] = 0.0
    """Minimum seconds between two reads of an isolated probe; 0: each flush reads it."""
    yields_to: ClassVar[str] = ""
    """A probe with the same source or devices; for a device that both read, only its facts and its
    hang are reported."""

    built_with: tuple[tuple[object, ...], dict[str, object]]
    """Constructor arguments, from which another process builds the same probe."""

    def __new__(cls, *arguments: object, **named: object) -> Self:
        """Create a probe and record its constructor arguments."""
        probe = super().__new__(cls)
        probe.built_with = arguments, named
        return probe

    @classmethod
    def is_enabled(cls, context: ProbeContext) -> bool:
        """Return whether this node runs the probe."""
        return True

    @classmethod
    @abstractmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe; this opens nothing."""

    def helper(self) -> str:
        """Return the name of the process that reads the probe with others until a read fails.

        Probes that read the kernel's files share one, and those that call a driver's library, which
        may crash, another.
        """
        return "kernel"

    @abstractmethod
    def supported(self) -> bool:
        """Return whether this node has the source."""

    @abstractmethod
    def read(self) -> Rows | list[Values]:
        """Read the source once; an isolated probe returns records without numpy.

        Raises:
            OSError: the source exists but cannot be read now; that is unknown, not healthy.
            ValueError: the source holds an invalid value.
        """

    def rows_of(self, rows: Rows, ranks: Sequence[WatchedRank]) -> Rows:
        """Return the reading's rows for the segment with these ranks."""
        return rows

    def owners(self) -> Sequence[Collection[int]]:
        """Return, for each row in the newest reading, the ids of its processes.

        For a device these are the processes that compute on it; empty if no row relates to a
        process.
        """
        return ()

    def facts(self) -> Sequence[Sighting]:
        """Return the newest read's faults."""
        return ()

    def gauges(self, rows: Rows) -> Iterable[Gauge]:
        """Return `/metrics` samples from these rows; an isolated probe may use nothing else."""
        return ()

    def close(self) -> None:
        """Release the source."""
        return
