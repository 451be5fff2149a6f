"""Check results, and the inputs for checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.access import Access
from stepwatch.signals.clock import Clock, SystemClock


class Outcome(StrEnum):
    """A check's outcome; a source that cannot be read is UNKNOWN and never passes."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


class Problem(StrEnum):
    """The party that fixes the problem: the node's operator or the job's owner."""

    NODE = "node_problem"
    USER = "user_problem"


class Result(NamedTuple):
    """One result line: the finding, the remedy, and the limit's source."""

    check: str
    outcome: Outcome
    text: str
    remedy: str = ""
    source: str = ""
    problem: Problem = Problem.NODE


@dataclass(frozen=True)
class Surroundings:
    """Inputs for checks: the job's environment, `/proc`, `/sys`, `/dev/shm` and the user's options.

    `needed` lists required variables. `checkpoints` is the job's checkpoint folder, `data` its
    dataset folder.
    """

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
