"""The ways to cause faults from outside the processes."""

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
    """The means to cause faults in addition to signals.

    The ranks read `environ`. `begin` starts a fault in the processes `pids` (one a rank), `close`
    undoes everything.
    """

    environ: dict[str, str]

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Begin the fault."""

    def close(self) -> None:
        """End the fault and remove its files."""


class NoMeansError(StepwatchError):
    """This machine cannot cause the fault."""


@dataclass
class Signals:
    """No means but signals."""

    environ: dict[str, str]

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Do nothing: `Outside` sends the signals."""

    def close(self) -> None:
        """Do nothing: there are no files."""


class Way(NamedTuple):
    """A class of faults and the way to cause it.

    `causes` are as right as those of the class: a process without a processor is slow for that
    reason.
    """

    kind: FaultKind
    name: str
    causes: frozenset[str] = frozenset()


_BY_SIGNALS = (
    FaultKind.STOP,
    FaultKind.STOP_ALL,
    FaultKind.KILL,
    FaultKind.NODE_LOST,
    FaultKind.EXIT_EARLY,
    FaultKind.EXCEPTION,
    FaultKind.HANG,
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
    """Draw a way; each class is equally likely."""
    kind = dice.choice(sorted({way.kind for way in WAYS}))
    return dice.choice([way for way in WAYS if way.kind is kind])


def make_means(name: str, job: str, folder: Path, step_seconds: float) -> Means:
    """Make the means of a way for a job; `folder` is for files.

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
