"""Plan of a demo, validated before anything starts."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stepwatch.cli.up.ports import free_port
from stepwatch.faults import FAULTS, Fault, parse_fault
from stepwatch.faults.specs import FlipBit, Hang, Kill, Stop, WrongShape
from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError, DataError, UsageError
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.validation import UNSUPPORTED_FAULTS, validate_faults

JOB = "demo"
RANKS = 4
STEPS = 60
LEAST_STEPS = 10
FAULT = "slow-compute:rank=2,step=20"
DRILLED = tuple(name for name, kind in FAULTS.items() if kind not in (*UNSUPPORTED_FAULTS, FlipBit))
"""Names of faults that a demo can inject and show."""

_PURPOSE = "the page"
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Plan:
    """One demo: steps to train, faults to inject, and paths."""

    steps: int
    faults: tuple[Fault, ...]
    fault_texts: tuple[str, ...]
    data: Path | None
    folder: Path
    rings: Path
    keeps_files: bool
    port: int
    timeout_seconds: float
    hold: bool

    @property
    def hangs(self) -> bool:
        """Whether a fault keeps the run from ending by itself."""
        return any(isinstance(fault, Hang | Stop | WrongShape) for fault in self.faults)

    @property
    def loses_rank(self) -> bool:
        """Whether a fault kills a rank, so that the job must restart."""
        return any(isinstance(fault, Kill) for fault in self.faults)

    @property
    def store(self) -> Path:
        """The collector's store."""
        return self.folder / "store.db"


def make_plan(arguments: argparse.Namespace) -> Plan:
    """Check the options and create the demo's directories.

    Raises:
        UsageError: a fault, a number or a path does not fit, or the demo cannot inject the fault;
            nothing was started.
        DataError: there is no data at `--data`.
        ConfigurationError: a directory cannot be written, or the port is in use.
    """
    if arguments.steps < LEAST_STEPS:
        raise UsageError(f"--steps {arguments.steps}: at least {LEAST_STEPS} steps make a run")
    texts = tuple(arguments.fault or [FAULT])
    faults = tuple(fault for fault in map(parse_fault, texts) if fault is not None)
    validate_faults(Options(), faults)
    for fault in faults:
        if isinstance(fault, FlipBit):
            raise UsageError(
                "fault flip-bit: the demo's mesh has no replicas that could differ; "
                "stepwatch train --mesh dp_replicate=4 has"
            )
        if fault.rank >= RANKS:
            raise UsageError(f"fault {fault.name}: rank {fault.rank}; the demo has ranks 0-3")
        if fault.step >= arguments.steps:
            raise UsageError(
                f"fault {fault.name}: step {fault.step} is never reached in {arguments.steps} steps"
            )
    if arguments.data is not None and not arguments.data.exists():
        raise DataError(
            f"there is no {arguments.data}; pass --data with a text file or a directory"
        )
    port = _usable_port(arguments.port)
    return Plan(
        steps=arguments.steps,
        faults=faults,
        fault_texts=tuple(text for text in texts if text != "none"),
        data=arguments.data,
        folder=_folder(arguments.keep),
        rings=_rings(),
        keeps_files=arguments.keep is not None,
        port=port,
        timeout_seconds=arguments.timeout,
        hold=arguments.hold,
    )


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="stepwatch-demo-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise UsageError(f"--keep {keep} is not empty; name a new directory")
        (keep / ".writable").touch()
        (keep / ".writable").unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to --keep {keep}: {error.strerror}; name a writable directory"
        ) from error
    return keep


def _rings() -> Path:
    parent = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    try:
        return Path(tempfile.mkdtemp(prefix="stepwatch-demo-", dir=parent))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="stepwatch-demo-"))


def _usable_port(wanted: int | None) -> int:
    """Return the requested port, else the default one, or a free one if the default is in use."""
    if wanted is not None:
        return free_port(wanted, "--port", _PURPOSE)
    try:
        return free_port(places.DEFAULT_COLLECTOR_PORT, "--port", _PURPOSE)
    except ConfigurationError:
        return free_port(0, "--port", _PURPOSE)
