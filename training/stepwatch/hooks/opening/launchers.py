"""Which rank this process is, from whoever knows: torch, a framework, or the launcher.

    torch.distributed once it is initialised    the truth, whoever launched the process
    a framework                                 `trainer.global_rank`, given by its adapter
    RANK, WORLD_SIZE                            torchrun and those that do as it does
    OMPI_COMM_WORLD_RANK, ..._SIZE              mpirun of Open MPI
    MV2_COMM_WORLD_RANK, ..._SIZE               mpirun_rsh of MVAPICH
    PMI_RANK, PMI_SIZE                          mpiexec of MPICH and Intel, srun --mpi=pmi2
    SLURM_PROCID, SLURM_STEP_NUM_TASKS          srun alone

The first that knows both numbers counts. A process that none of them numbers is rank 0 of 1.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.processes import start_ticks, started_s

NUMBERED_BY = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    # Not SLURM_NTASKS: a batch script has it too, and is no task of the step.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables of rank and world size, in the order in which they count."""
_OF_ONE_LAUNCH = ("SLURM_STEP_ID", "PMIX_NAMESPACE", "PMI_JOBID")
_MOST_DIGITS = 12
_ELASTIC_ID, _NO_ELASTIC_ID = "TORCHELASTIC_RUN_ID", ("", "none")


class RankInWorld(NamedTuple):
    """Number of a process among all of its job."""

    rank: int
    world: int


def rank_of_torch() -> RankInWorld | None:
    """What torch.distributed says; None before it is initialised. It is not imported here."""
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return RankInWorld(distributed.get_rank(), distributed.get_world_size())


def rank_of_launcher(environ: Mapping[str, str]) -> RankInWorld | None:
    """What the launcher wrote into the environment; None where nobody numbered this process.

    Raises:
        ConfigurationError: a number is not one.
    """
    for names in NUMBERED_BY:
        if all(name in environ for name in names):
            return RankInWorld(number(environ, names[0], 0), number(environ, names[1], 1))
    return None


def known_rank(
    environ: Mapping[str, str], declared: RankInWorld | None = None
) -> RankInWorld | None:
    """Rank and world of this process from the first that knows them; None while nobody does.

    Raises:
        ConfigurationError: a number of the launcher is not one.
    """
    return rank_of_torch() or declared or rank_of_launcher(environ)


def launch_key(environ: Mapping[str, str]) -> str:
    """Eight letters that all ranks of one launch on a node share, and another launch does not.

    They stand for the launcher's own name of the launch, for where its ranks meet, or, where the
    environment tells neither, for the parent process.
    """
    parts = [environ[name] for name in _OF_ONE_LAUNCH if name in environ]
    elastic = environ.get(_ELASTIC_ID, "")
    if elastic not in _NO_ELASTIC_ID:
        parts.append(elastic)
    elif "MASTER_PORT" in environ:
        parts += [environ.get("MASTER_ADDR", ""), environ["MASTER_PORT"]]
    if not parts:
        parent = os.getppid()
        parts = [str(parent), str(start_ticks(parent))]
    parts.append(environ.get("SLURM_JOB_ID", ""))
    return f"{zlib.crc32(chr(10).join(parts).encode()):08x}"


def launcher_of(environ: Mapping[str, str]) -> tuple[int, int]:
    """The process that starts this one again when it ends, and its start in clock ticks: torchrun,
    the parent of its ranks. Zeros where there is none: a shell, or a launcher that ends with them.
    """
    parent = os.getppid() if _ELASTIC_ID in environ else 0
    return (parent, start_ticks(parent)) if parent else (0, 0)


def allocated_since_s(environ: Mapping[str, str]) -> int | None:
    """Since when the devices are held for this job, Unix seconds: the start of the Slurm job, else
    that of torchrun, which lives through its restarts. None where nobody says so: a shell, say."""
    slurm = environ.get("SLURM_JOB_START_TIME", "")
    if slurm.isascii() and slurm.isdigit() and len(slurm) < _MOST_DIGITS:
        return int(slurm)
    if _ELASTIC_ID not in environ:
        return None
    began_s = started_s(os.getppid())
    return None if began_s is None else int(began_s)


def number(environ: Mapping[str, str], key: str, default: int) -> int:
    """A whole number from the environment; `default` where it is missing or empty.

    Raises:
        ConfigurationError: it is no whole number.
    """
    text = environ.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"{key}={text!r} is not a whole number; unset it or correct it")
    return int(text)
