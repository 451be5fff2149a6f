"""Who this process is: job, attempt, rank, mesh and node, read from the environment."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping

from stepwatch.signals import places
from stepwatch.signals.blackbox import DEFAULT_CAPACITY, Identity
from stepwatch.signals.blackbox.layout import MESH_AXES
from stepwatch.signals.errors import ConfigurationError

JOB_CLASS_SIZE = 32
Mesh = Mapping[str, int]


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the user switched stepwatch off."""
    return environ.get(places.ENV_DISABLE, "0") not in ("", "0")


def is_quiet(environ: Mapping[str, str]) -> bool:
    """Whether the user wants no lines from a run that goes well."""
    return environ.get(places.ENV_QUIET, "0") not in ("", "0")


def is_helper() -> bool:
    """Whether this process serves a rank and is none, even with an inherited RANK.

    That is a DataLoader worker, or a spawned child that runs the trainer's script again only to
    import it: a Watch in there would replace the rank's ring.
    """
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and getattr(processes.current_process(), "_inheriting", False):
        return True
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and loading.get_worker_info() is not None


def under_launcher(environ: Mapping[str, str]) -> bool:
    """Whether a launcher such as torchrun numbered this process."""
    return "RANK" in environ and "WORLD_SIZE" in environ


def read_identity(
    job: str | None, mesh_index: Mesh, mesh_size: Mesh, device: int, environ: Mapping[str, str]
) -> Identity:
    """Build the identity of this rank; a process without a launcher is rank 0 of 1.

    Raises:
        ConfigurationError: a number is not one, a name cannot be a path, or an axis is unknown.
    """
    unknown = sorted({*mesh_index, *mesh_size} - set(MESH_AXES))
    if unknown:
        raise ConfigurationError(f"mesh axis {unknown[0]!r} is not one of {', '.join(MESH_AXES)}")
    name = environ.get(places.ENV_JOB) or job or "default"
    return Identity(
        job=places.checked_name(name, "job name"),
        attempt=_attempt(environ),
        rank=_number(environ, "RANK", 0),
        world=_number(environ, "WORLD_SIZE", 1),
        node=places.node_name(),
        pid=os.getpid(),
        ring_id=int.from_bytes(os.urandom(8), "little") >> 1,
        capacity=DEFAULT_CAPACITY,
        mesh_index=_axes(mesh_index, 0),
        mesh_size=_axes(mesh_size, 1),
        monotonic_ns=time.monotonic_ns(),
        wall_ns=time.time_ns(),
        device=device,
        process_start=process_start_ticks(),
        job_class=_job_class(environ),
    )


def process_start_ticks() -> int:
    """Start of this process in clock ticks since boot (proc(5), stat field 22); 0 if unknown."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _job_class(environ: Mapping[str, str]) -> str:
    name = environ.get(places.ENV_JOB_CLASS) or "experiment"
    return places.checked_name(name, places.ENV_JOB_CLASS)[:JOB_CLASS_SIZE]


def _attempt(environ: Mapping[str, str]) -> int:
    base = places.ENV_ATTEMPT_BASE if places.ENV_ATTEMPT_BASE in environ else "SLURM_RESTART_COUNT"
    return _number(environ, base, 0) + _number(environ, "TORCHELASTIC_RESTART_COUNT", 0)


def _axes(values: Mesh, default: int) -> tuple[int, int, int, int]:
    pp, replicate, shard, tp = (int(values.get(axis, default)) for axis in MESH_AXES)
    return pp, replicate, shard, tp


def _number(environ: Mapping[str, str], key: str, default: int) -> int:
    text = environ.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"{key}={text!r} is not a whole number; unset it or correct it")
    return int(text)
