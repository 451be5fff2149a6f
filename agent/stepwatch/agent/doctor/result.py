"""What a check says, and what it may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.access import Access
from stepwatch.signals.clock import Clock, SystemClock


class Outcome(StrEnum):
    """What came of a check; what could not be looked at is unknown, and never passes."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


class Problem(StrEnum):
    """Whose it is to mend: whoever runs the nodes, or whoever starts the job."""

    NODE = "node_problem"
    USER = "user_problem"


class Result(NamedTuple):
    """One line of the examination: what was found, what to do, and where its limit comes from."""

    check: str
    outcome: Outcome
    text: str
    remedy: str = ""
    source: str = ""
    problem: Problem = Problem.NODE


@dataclass(frozen=True)
class Surroundings:
    """What checks look at: the environment of the job, `/proc`, `/sys`, `/dev/shm`, and what was
    asked for. `needed` are variables that must be set; `checkpoints` where the job writes, `data`
    where its dataset lies."""

    environ: Mapping[str, str]
    collector: str = ""
    access: Access = field(default_factory=Access)
    checkpoints: Path | None = None
    data: Path | None = None
    needed: tuple[str, ...] = ()
    clock: Clock = field(default_factory=SystemClock)
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    shared_memory: Path = Path("/dev/shm")
    kernel_log: Path = Path("/dev/kmsg")
