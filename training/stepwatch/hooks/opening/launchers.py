"""This process's rank, from torch, a framework, or the launcher.

    torch.distributed once it is initialised    the truth, with any launcher
    a framework                                 `trainer.global_rank`, from its adapter
    RANK, WORLD_SIZE                            torchrun and compatible launchers
    OMPI_COMM_WORLD_RANK, ..._SIZE              mpirun of Open MPI
    MV2_COMM_WORLD_RANK, ..._SIZE               mpirun_rsh of MVAPICH
    PMI_RANK, PMI_SIZE                          mpiexec of MPICH and Intel, srun --mpi=pmi2
    SLURM_PROCID, SLURM_STEP_NUM_TASKS          srun alone

The first source with both numbers counts. A process without any is rank 0 of 1.
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
    # Not SLURM_NTASKS: a batch script has it too, and is not a task in the step.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables for rank and world size, in order of precedence."""
_OF_ONE_LAUNCH = ("SLURM_STEP_ID", "PMIX_NAMESPACE", "PMI_JOBID")
_MOST_DIGITS = 12
_ELASTIC_ID, _NO_ELASTIC_ID = "TORCHELASTIC_RUN_ID", ("", "none")


class RankInWorld(NamedTuple):
    """A process's number among all processes in its job."""

    rank: int
    world: int


def rank_of_torch() -> RankInWorld | None:
    """Return torch.distributed's rank; None before it is initialised. It is not imported here."""
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return RankInWorld(distributed.get_rank(), distributed.get_world_size())


def rank_of_launcher(environ: Mapping[str, str]) -> RankInWorld | None:
    """Return the launcher's rank from the environment; None without a launcher.

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
    """Return this process's rank and world from the first source; None while there is none.

    Raises:
        ConfigurationError: a launcher's number is not one.
    """
    return rank_of_torch() or declared or rank_of_launcher(environ)


def launch_key(environ: Mapping[str, str]) -> str:
    """Return eight letters that all ranks in one launch on a node share, and other launches do not.

    They stand for the launcher's own launch name, for its ranks' rendezvous, or, if the
    environment has neither, for the parent process.
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
    """Return the process that restarts this one when it ends, and its start in clock ticks.

    That is torchrun, the ranks' parent. Zeros without one: a shell, or a launcher that ends with
    its ranks.
    """
    parent = os.getppid() if _ELASTIC_ID in environ else 0
    return (parent, start_ticks(parent)) if parent else (0, 0)


def allocated_since_s(environ: Mapping[str, str]) -> int | None:
    """Return since when the devices are allocated to this job, Unix seconds.

    That is the Slurm job's start, else the start of torchrun, which survives its restarts. None
    if neither is known, as in a shell.
    """
    slurm = environ.get("SLURM_JOB_START_TIME", "")
    if slurm.isascii() and slurm.isdigit() and len(slurm) < _MOST_DIGITS:
        return int(slurm)
    if _ELASTIC_ID not in environ:
        return None
    began_s = started_s(os.getppid())
    return None if began_s is None else int(began_s)


def number(environ: Mapping[str, str], key: str, default: int) -> int:
    """Return a whole number from the environment; `default` if it is missing or empty.

    Raises:
        ConfigurationError: it is not a whole number.
    """
    text = environ.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"{key}={text!r} is not a whole number; unset it or correct it")
    return int(text)
