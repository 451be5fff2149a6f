"""Plan of a simulation: fleet size, speed and faults."""

from __future__ import annotations

from dataclasses import dataclass

from stepwatch.faults.specs import Fault
from stepwatch.signals import places
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import UsageError

RANKS_PER_NODE = 8
MOST_RANKS = 131_072
"""Most ranks that a collector accepts in one attempt."""
MOST_RANKS_PER_NODE = 1024
MOST_COLLECTIVES = 6
FLUSH_SECONDS = 2.0
"""Interval between two segments from a node."""
LEAST_HANG_SECONDS, HANG_STEPS = 120.0, 12
"""How long a hanging run continues: longer than the detection of a hang takes."""
AFTER_KILL_SECONDS = 10.0


@dataclass(frozen=True)
class Plan:
    """A run with `steps` steps or `seconds` simulated seconds, whichever ends first.

    None means no limit. `speed` is simulated over real time; 0 runs as fast as the collector
    accepts segments.

    Raises:
        UsageError: the numbers do not fit together; the message names the fix.
    """

    ranks: int = 64
    nodes: int = 8
    step_seconds: float = 1.0
    steps: int | None = None
    seconds: float | None = None
    job: str = "simulated"
    attempt: int = 0
    collectives: int = 3
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    speed: float = 1.0
    flush_seconds: float = FLUSH_SECONDS

    def __post_init__(self) -> None:
        places.checked_name(self.job, "job name")
        _check("--ranks", self.ranks, 1, MOST_RANKS)
        _check("--nodes", self.nodes, 1, self.ranks)
        if self.ranks % self.nodes:
            raise UsageError(
                f"--ranks {self.ranks} cannot be shared evenly by --nodes {self.nodes}; "
                "pass a multiple"
            )
        _check("ranks per node", self.ranks_per_node, 1, MOST_RANKS_PER_NODE)
        _check("--step-seconds", self.step_seconds, 0.01, 3600)
        _check("--collectives", self.collectives, 1, MOST_COLLECTIVES)
        _check("--speed", self.speed, 0, 1000)
        _check("--flush-seconds", self.flush_seconds, 0.1, 60)
        _check("--seed", self.seed, 0, 2**32)
        if self.steps is not None:
            _check("--steps", self.steps, 1, 2**31)
        if self.seconds is not None:
            _check("--seconds", self.seconds, self.step_seconds, 10**7)
        if self.steps is None and self.seconds is None:
            raise UsageError("a run needs an end: pass --steps or --seconds")
        for fault in self.faults:
            self._check_fault(fault)

    @property
    def ranks_per_node(self) -> int:
        """Number of ranks on each node."""
        return self.ranks // self.nodes

    @property
    def step_ns(self) -> int:
        """Nanoseconds of a typical step."""
        return round(self.step_seconds * NANOSECONDS)

    @property
    def nominal_seconds(self) -> float:
        """Approximate simulated duration of a healthy run in seconds."""
        by_steps = float("inf") if self.steps is None else self.steps * self.step_seconds
        return min(by_steps, float("inf") if self.seconds is None else self.seconds)

    @property
    def expected_seconds(self) -> float:
        """Approximate simulated seconds, including the time after a fault that ends the run."""
        tail_seconds = self.hang_seconds if self.faults else 0.0
        return self.nominal_seconds + tail_seconds

    @property
    def hang_seconds(self) -> float:
        """Simulated seconds that a run continues after it hangs."""
        return max(LEAST_HANG_SECONDS, HANG_STEPS * self.step_seconds)

    def node_of(self, rank: int) -> int:
        """Return the number of the rank's node: ranks fill one node after the other."""
        return rank // self.ranks_per_node

    def _check_fault(self, fault: Fault) -> None:
        if fault.rank >= self.ranks:
            raise UsageError(
                f"fault {fault.name}: there is no rank {fault.rank}, the last of --ranks "
                f"{self.ranks} is {self.ranks - 1}"
            )
        if fault.attempt != self.attempt:
            raise UsageError(f"fault {fault.name}: attempt must be {self.attempt}, the only one")
        if fault.step * self.step_seconds >= self.nominal_seconds:
            raise UsageError(
                f"fault {fault.name}: step {fault.step} comes after the end; "
                f"pass step= or more --steps or --seconds"
            )


def node_name(number: int) -> str:
    """Return the name of a simulated node."""
    return f"sim-{number:05d}"


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name} {value} must be from {least:,} to {most:,}")
