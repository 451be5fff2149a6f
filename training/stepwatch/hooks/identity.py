"""This process's identity: job, attempt, rank, mesh and node."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stepwatch.signals import places
from stepwatch.signals.blackbox import DEFAULT_CAPACITY, Identity
from stepwatch.signals.blackbox.layout import MESH_AXES
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.processes import boot_number, pid_namespace, start_ticks

from .opening.launchers import (
    RankInWorld,
    known_rank,
    launch_key,
    launcher_of,
    number,
    rank_of_launcher,
)
from .opening.mesh import place_in

JOB_CLASS_SIZE = 32
ALONE = RankInWorld(0, 1)
Mesh = Mapping[str, int]


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Return whether the user switched stepwatch off."""
    return environ.get(places.ENV_DISABLE, "0") not in ("", "0")


def is_quiet(environ: Mapping[str, str]) -> bool:
    """Return whether the user wants no lines from a healthy run."""
    return environ.get(places.ENV_QUIET, "0") not in ("", "0")


def is_helper() -> bool:
    """Return whether this process serves a rank and is none, even with an inherited RANK.

    Such processes are DataLoader workers, and spawned children that run the trainer's script only
    to import it: a Watch in there would replace the rank's ring.
    """
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and getattr(processes.current_process(), "_inheriting", False):
        return True
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and loading.get_worker_info() is not None


class IdentityRequest(NamedTuple):
    """The trainer's own facts; `declared` is the rank that a framework knows."""

    job: str | None = None
    mesh_index: Mesh = MappingProxyType({})
    mesh_size: Mesh = MappingProxyType({})
    device: int = -1
    declared: RankInWorld | None = None


def under_launcher(environ: Mapping[str, str]) -> bool:
    """Return whether a launcher numbered this process before Python began."""
    return rank_of_launcher(environ) is not None


def is_spawned() -> bool:
    """Return whether `multiprocessing` started this process."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def read_identity(request: IdentityRequest, environ: Mapping[str, str]) -> Identity:
    """Build this process's identity; without a number from a launcher it is rank 0 of 1.

    Raises:
        ConfigurationError: a number is not one, a name cannot be a path, or an axis is unknown.
    """
    unknown = sorted({*request.mesh_index, *request.mesh_size} - set(MESH_AXES))
    if unknown:
        raise ConfigurationError(f"mesh axis {unknown[0]!r} is not one of {', '.join(MESH_AXES)}")
    name = environ.get(places.ENV_JOB) or request.job or "default"
    rank, world = known_rank(environ, request.declared) or ALONE
    launcher, launcher_start = launcher_of(environ)
    return Identity(
        job=places.checked_name(name, "job name"),
        attempt=_attempt(environ),
        rank=rank,
        world=world,
        node=places.node_name(),
        pid=os.getpid(),
        ring_id=int.from_bytes(os.urandom(8), "little") >> 1,
        capacity=DEFAULT_CAPACITY,
        mesh_index=_axes(request.mesh_index, 0),
        mesh_size=_axes(request.mesh_size, 1),
        monotonic_ns=time.monotonic_ns(),
        wall_ns=time.time_ns(),
        device=request.device,
        process_start=start_ticks(os.getpid()),
        job_class=_job_class(environ),
        pid_namespace=pid_namespace(),
        launch=launch_key(environ),
        boot=boot_number(),
        launcher=launcher,
        launcher_start=launcher_start,
    )


def _job_class(environ: Mapping[str, str]) -> str:
    name = environ.get(places.ENV_JOB_CLASS) or "experiment"
    return places.checked_name(name, places.ENV_JOB_CLASS)[:JOB_CLASS_SIZE]


def in_named_mesh(identity: Identity, environ: Mapping[str, str]) -> Identity:
    """Return `identity` with its rank's place in STEPWATCH_MESH; unchanged if that is unset.

    Raises:
        ConfigurationError: it names no mesh for this world.
    """
    named = environ.get(places.ENV_MESH)
    if not named:
        return identity
    place = place_in(named, identity.rank, identity.world)
    return identity._replace(
        mesh_index=_axes(place.coordinates, 0), mesh_size=_axes(place.sizes, 1)
    )


def base_attempt(environ: Mapping[str, str]) -> int:
    """Return the scheduler's number for the first attempt under this launcher.

    Raises:
        ConfigurationError: it is not a whole number.
    """
    base = places.ENV_ATTEMPT_BASE if places.ENV_ATTEMPT_BASE in environ else "SLURM_RESTART_COUNT"
    return number(environ, base, 0)


def _attempt(environ: Mapping[str, str]) -> int:
    return base_attempt(environ) + number(environ, "TORCHELASTIC_RESTART_COUNT", 0)


def _axes(values: Mesh, default: int) -> tuple[int, int, int, int]:
    pp, replicate, shard, tp = (int(values.get(axis, default)) for axis in MESH_AXES)
    return pp, replicate, shard, tp
