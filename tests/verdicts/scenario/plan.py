"""The parts of a scenario: a job, its pace, its faults, and faults of telemetry.

Seconds count from the moment at which the ranks begin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from stepwatch.signals.records import LifecycleEvent


class Shape(StrEnum):
    """How the ranks of a job share its work."""

    DDP = "ddp"
    FSDP2 = "fsdp2"
    TENSOR = "tensor"
    PIPELINE = "pipeline"


class Pace(StrEnum):
    """How a healthy rank's step times spread."""

    CONSTANT = "constant"
    JITTERED = "jittered"
    RECORDED = "recorded"
    HEAVY_TAILED = "heavy-tailed"
    TOKENS = "tokens"
    """Time follows the tokens, which each rank draws for itself and reports."""
    TWO_VALUED = "two-valued"
    """Short and long sequences; the reported work is constant."""


class FaultKind(StrEnum):
    """Kinds of faults, in the words of `tests/faults/test_vocabulary.py`."""

    SLOW_COMPUTE = "slow-compute"
    SLOW_DATA = "slow-data"
    SLOW_OPTIMIZER = "slow-optimizer"
    SLOW_NODE = "slow-node"
    SLOW_LINK = "slow-link"
    SLOW_STAGE_LINK = "slow-stage-link"
    SLOW_DATA_EVERYWHERE = "slow-data-everywhere"
    STOPPED_NOW_AND_THEN = "stopped-now-and-then"
    STOP = "stop"
    STOP_ALL = "stop-all"
    KILL = "kill"
    EXIT_EARLY = "exit-early"
    EXCEPTION = "exception"
    HANG = "hang"
    HANG_BUSY = "hang-busy"
    HANG_INSIDE = "hang-inside"
    CROSSED_GROUPS = "crossed-groups"
    NODE_LOST = "node-lost"
    MEMORY_GROWTH = "memory-growth"
    CHECKPOINT_STALL = "checkpoint-stall"


class History(StrEnum):
    """Earlier runs that the collector knows and that resemble the job."""

    NONE = "none"
    ATTEMPT = "attempt"
    """An earlier attempt of the job, which was interrupted."""
    CLASS = "class"
    """Other jobs of its class that ended."""


SLOWING = frozenset(
    {
        FaultKind.SLOW_COMPUTE,
        FaultKind.SLOW_DATA,
        FaultKind.SLOW_OPTIMIZER,
        FaultKind.SLOW_NODE,
        FaultKind.SLOW_LINK,
        FaultKind.SLOW_STAGE_LINK,
        FaultKind.SLOW_DATA_EVERYWHERE,
        FaultKind.STOPPED_NOW_AND_THEN,
        FaultKind.CHECKPOINT_STALL,
    }
)
"""Steps continue, and take longer."""
DYING = frozenset({FaultKind.KILL, FaultKind.EXIT_EARLY, FaultKind.EXCEPTION, FaultKind.NODE_LOST})
"""A process ends."""
STANDING = frozenset(
    {
        FaultKind.STOP,
        FaultKind.STOP_ALL,
        FaultKind.HANG,
        FaultKind.HANG_BUSY,
        FaultKind.HANG_INSIDE,
        FaultKind.CROSSED_GROUPS,
    }
)
"""No step ends any more, while every process is there."""


@dataclass(frozen=True)
class Fault:
    """One fault of `ranks`, from second `onset`, for `seconds`.

    `effect` is about how many times as long an affected step takes: the fault takes `effect - 1`
    usual steps. It hits one step in `period`. For a process that is stopped now and then, `effect`
    is the lost share of time; for a slow save, it is the additional seconds.
    """

    kind: FaultKind
    ranks: tuple[int, ...]
    node: int = -1
    effect: float = 1.0
    period: int = 1
    onset: float = 0.0
    seconds: float = math.inf

    def lasts(self, moment: float) -> bool:
        """Return whether the fault is there at second `moment`."""
        return self.onset <= moment < self.onset + self.seconds

    def active(self, moment: float, step: int) -> bool:
        """Return whether the fault hits the step that begins at `moment`."""
        return self.lasts(moment) and step % self.period == 0


@dataclass(frozen=True)
class Pauses:
    """The job does something else every `every` steps, 0 never; `rank` -1 is all ranks."""

    every: int = 0
    seconds: float = 0.0
    marked: bool = True
    rank: int = -1


@dataclass(frozen=True)
class Loads:
    """Late batches of a healthy job.

    All loaders restart every `epoch_every` steps, 0 never, in about `epoch_seconds`. One step in
    `stall_every`, 0 none, waits `stall_seconds` for the batch of any one rank.
    """

    epoch_every: int = 0
    epoch_seconds: float = 0.0
    stall_every: int = 0
    stall_seconds: float = 0.0


@dataclass(frozen=True)
class Telemetry:
    """Faults of telemetry; node -1 is none. Clocks are off by `clock_seconds` (nodes,)."""

    killed_node: int = -1
    killed_at: float = math.inf
    late_seconds: float = 0.0
    late_node: int = -1
    clock_seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """One job, for `seconds`; healthy without faults. A seed always makes the same scenario."""

    seed: int
    shape: Shape
    ranks: int
    nodes: int
    step_seconds: float
    pace: Pace
    seconds: float
    faults: tuple[Fault, ...] = ()
    pauses: Pauses = Pauses()
    saves: Pauses = Pauses()
    loads: Loads = Loads()
    telemetry: Telemetry = Telemetry()
    peers_raise: bool = False
    """Whether a collective raises soon after a peer is gone, as Gloo's does."""
    names_stages: bool = True
    """Whether a pipeline's ranks report their stage; otherwise their sends show it."""
    restart_seconds: float = math.inf
    """Seconds from a failed attempt's end to the start of the next one."""
    history: History = History.NONE
    ends: LifecycleEvent | None = None
    """The event that its ranks report at its end, for a job that is over."""
    transfer_times: float = 1.0
    """Factor of transfer times compared with other runs: another place in the network."""
    name: str = ""

    @property
    def ranks_per_node(self) -> int:
        """Number of ranks on each node."""
        return self.ranks // self.nodes

    def node_of(self, rank: int) -> int:
        """Return the number of a rank's node."""
        return rank // self.ranks_per_node

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.name or f"scenario-{self.seed}"


def node_name(node: int) -> str:
    """Return the name of a node."""
    return f"node-{node}"
