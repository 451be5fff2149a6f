"""The ways in which faults come about outside the processes that they hit, and which there are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.names import Cause
from tests.verdicts.scenario.plan import Fault, FaultKind

from . import links, storage
from .cpu import Burners, Quota


class Means(Protocol):
    """What brings faults about beside signals.

    `environ` is what the ranks read; `begin` starts a fault in the processes `pids` (one a
    rank), `close` undoes everything.
    """

    environ: dict[str, str]

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Let the fault begin."""

    def close(self) -> None:
        """Undo it, and remove what was made."""


class NoMeansError(StepwatchError):
    """This machine cannot bring such a fault about."""


@dataclass
class Signals:
    """Nothing beside signals."""

    environ: dict[str, str]

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Signals are sent by `Outside`."""

    def close(self) -> None:
        """Nothing was made."""


class Way(NamedTuple):
    """A class of faults and how it comes about.

    `causes` are as right as those of the class: a process that gets no processor is slow for that
    reason.
    """

    kind: FaultKind
    name: str
    causes: frozenset[str] = frozenset()


_BY_SIGNALS = (
    FaultKind.STOP,
    FaultKind.STOP_ALL,
    FaultKind.KILL,
    FaultKind.LOST_NODE,
    FaultKind.EXIT_EARLY,
    FaultKind.EXCEPTION,
    FaultKind.HANG_OUTSIDE,
    FaultKind.HANG_BUSY,
    FaultKind.STOPPED_NOW_AND_THEN,
    FaultKind.SLOW_COMPUTE,
    FaultKind.SLOW_NODE,
)
_NO_PROCESSOR = frozenset({Cause.CPU_CONTENTION.value})
SIGNALS, QUOTA, BURNERS, LINKS, STORAGE = "signals", "cgroup-quota", "burners", "links", "storage"
WAYS = (
    *(Way(kind, SIGNALS, _NO_PROCESSOR) for kind in _BY_SIGNALS),
    Way(FaultKind.SLOW_COMPUTE, QUOTA, _NO_PROCESSOR | {Cause.CONTAINER_LIMIT.value}),
    Way(FaultKind.SLOW_COMPUTE, BURNERS, _NO_PROCESSOR),
    Way(FaultKind.SLOW_LINK, LINKS),
    Way(FaultKind.SLOW_DATA, STORAGE),
    Way(FaultKind.SLOW_DATA_EVERYWHERE, STORAGE),
)


def way_of(dice: random.Random) -> Way:
    """One of them, each class as often as another."""
    kind = dice.choice(sorted({way.kind for way in WAYS}))
    return dice.choice([way for way in WAYS if way.kind is kind])


def make_means(name: str, job: str, folder: Path, step_seconds: float) -> Means:
    """Make what a way needs for a job; `folder` is for files.

    Raises:
        NoMeansError: this machine cannot do that.
    """
    kinds: dict[str, Callable[[], Means]] = {
        SIGNALS: lambda: Signals({}),
        QUOTA: lambda: Quota(job),
        BURNERS: lambda: Burners(),
        LINKS: lambda: links.Links(step_seconds),
        STORAGE: lambda: storage.Storage(folder / "storage.sock", step_seconds),
    }
    try:
        return kinds[name]()
    except OSError as error:
        raise NoMeansError(f"{name}: {error}") from error
