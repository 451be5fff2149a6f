"""The matrix: which trainer, under which launcher, watched how."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.trainers.programs.plan import SLOW_LOADER, SLOW_RANK, Plan

PROGRAMS = Path(__file__).parent / "programs"
STEPWATCH = Path(sys.executable).parent / "stepwatch"
TORCHRUN, PYTHON = "torchrun", "python"
NO_CODE, LINES, CALLBACK = "no code", "lines", "adapter"
HALVES = ("first", "second")
_WITHIN = {NO_CODE: "", LINES: "lines", CALLBACK: "callback"}
"""The program's own `adapter` setting for each way to watch."""


class Trainer(NamedTuple):
    """A program, how it is launched, its ways to be watched, and options of its plan.

    `ranks` is how many there are; `shares` the phases in which its data wait may honestly be
    shown where no code tells them apart.
    """

    name: str
    program: str
    launcher: str
    ways: tuple[str, ...]
    options: Mapping[str, Any] = {}
    ranks: int = 2


TRAINERS = (
    Trainer("nanogpt", "nanogpt_loop", TORCHRUN, (LINES, NO_CODE)),
    Trainer("transformers", "hf_trainer", TORCHRUN, (CALLBACK, NO_CODE)),
    Trainer("lightning", "lightning_fit", TORCHRUN, (CALLBACK, NO_CODE)),
    Trainer("lightning-alone", "lightning_fit", PYTHON, (CALLBACK, NO_CODE)),
    Trainer("accelerate", "accelerate_loop", TORCHRUN, (CALLBACK, NO_CODE)),
    Trainer("deepspeed", "deepspeed_loop", TORCHRUN, (CALLBACK, NO_CODE)),
    Trainer("fsdp2", "fsdp2_loop", TORCHRUN, (LINES, NO_CODE)),
    *(
        Trainer(f"picotron-{axis}2", "picotron_loop", TORCHRUN, (LINES, NO_CODE), {"axis": axis})
        for axis in ("dp", "tp", "pp")
    ),
    Trainer("single", "nanogpt_loop", PYTHON, (LINES, NO_CODE), ranks=1),
    Trainer("compiled", "nanogpt_loop", TORCHRUN, (LINES, NO_CODE), {"compiled": "aot_eager"}),
    Trainer("spawned", "spawned", PYTHON, (LINES, NO_CODE)),
)
"""All trainers; `lightning-alone` is Lightning's own launcher, `spawned` is mp.spawn."""


class Cell(NamedTuple):
    """One trainer, watched in one way."""

    trainer: Trainer
    way: str

    @property
    def name(self) -> str:
        """Its name on the command line and in job names."""
        return f"{self.trainer.name}-{self.way.replace(' ', '-')}"

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults to run: a lone rank is not slower than others."""
        return (SLOW_RANK, SLOW_LOADER) if self.trainer.ranks > 1 else (SLOW_LOADER,)

    def plan(self, folder: Path, run: str, *, watched: bool = True, **changed: Any) -> Plan:
        """A run of it; `run` tells its runs apart."""
        return Plan(
            job=f"{self.name}-{run}",
            folder=str(folder),
            world=self.trainer.ranks,
            adapter=_WITHIN[self.way] if watched else "",
            **self.trainer.options,
            **changed,
        )

    def command(self, plan: Plan, *, watched: bool) -> list[str]:
        """Return the command as a user types it."""
        words = [sys.executable]
        if self.trainer.launcher == TORCHRUN:
            words += ["-m", "torch.distributed.run", "--standalone"]
            words += [f"--nproc-per-node={plan.world}"]
        words.append(str(PROGRAMS / f"{self.trainer.program}.py"))
        if watched and self.way == NO_CODE:
            return [str(STEPWATCH), "run", "--job", plan.job, "--", *words]
        return words


def cells() -> Iterator[Cell]:
    """All cells."""
    for trainer in TRAINERS:
        for way in trainer.ways:
            yield Cell(trainer, way)


def half_of(cell: Cell) -> str:
    """Return the cell's half, for users with time for one only."""
    return HALVES[list(cells()).index(cell) % 2]
