"""One rank's process groups, device and mesh coordinates."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.trainer.config.mesh import AXES, MeshCoordinates, MeshShape


@dataclass(frozen=True)
class Runtime:
    """One rank's process groups, device and mesh coordinates.

    `control_group` is a Gloo group over all ranks for everything but training steps. A checkpoint
    thread can use it while a step uses the other groups.
    """

    rank: int
    world: int
    device: torch.device
    mesh: DeviceMesh
    coordinates: MeshCoordinates
    control_group: dist.ProcessGroup

    @property
    def is_leader(self) -> bool:
        """Return whether this is rank 0, which prints and writes files for all ranks."""
        return self.rank == 0

    @property
    def stage_ranks(self) -> int:
        """Ranks that hold the same pipeline stages."""
        return self.world // self.coordinates.shape.pp

    def log(self, text: str) -> None:
        """Print a line on standard error, on rank 0 only."""
        if self.is_leader:
            print(text, file=sys.stderr, flush=True)


def launched_rank(environment: Mapping[str, str], shape: MeshShape) -> tuple[int, int]:
    """Read rank and world size from the launcher's environment and compare them with the mesh.

    Raises:
        ConfigurationError: a torchrun variable is missing or not a valid number.
        UsageError: the mesh needs another number of ranks.
    """
    try:
        rank, world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    except KeyError as error:
        raise ConfigurationError(
            f"{error.args[0]} is not set: start with `stepwatch train` or "
            "`torchrun -m stepwatch.trainer`"
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"RANK and WORLD_SIZE must be whole numbers: {error}") from error
    if not 0 <= rank < world:
        raise ConfigurationError(
            f"RANK {rank} is outside 0..{world - 1}: ranks are missing or repeated"
        )
    if world != shape.world:
        raise UsageError(f"the mesh ({shape}) needs {shape.world} ranks, {world} were started")
    return rank, world


def _device(wanted: str, environment: Mapping[str, str]) -> torch.device:
    local = int(environment.get("LOCAL_RANK", "0"))
    local_world = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    if wanted == "auto":
        enough = torch.cuda.is_available() and torch.cuda.device_count() >= local_world
        wanted = "cuda" if enough else "cpu"
    if wanted == "cpu":
        torch.set_num_threads(1)
        return torch.device("cpu")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None or accelerator.type != wanted:
        raise UsageError(f"--device {wanted}: torch finds {accelerator or 'no accelerator'} here")
    index = local % torch.accelerator.device_count()
    torch.accelerator.set_device_index(index)
    return torch.device(wanted, index)


def _backend(device: torch.device) -> str:
    if device.type == "cpu":
        return "gloo"
    return f"cpu:gloo,{device.type}:{dist.get_default_backend_for_device(device)}"


def _store(environment: Mapping[str, str], limit: timedelta) -> Store:
    store: Store
    try:
        store, _, _ = next(rendezvous("env://", timeout=limit))
    except dist.DistError as error:
        raise ConfigurationError(
            f"not all ranks joined ({error}): start all of WORLD_SIZE, and see why the others died"
        ) from error
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return store
    # torchrun's store outlives a restart and still holds the dead ranks' addresses:
    # https://github.com/pytorch/pytorch/issues/135712
    return PrefixStore(f"attempt-{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def wait_for_all_ranks(store: Store, rank: int, world: int, limit: timedelta) -> None:
    """Register this rank in the store and wait for all others, so that an error names the missing.

    Raises:
        ConfigurationError: this rank was started twice, or others did not join in time.
    """
    if store.add(f"stepwatch/rank/{rank}", 1) > 1:
        raise ConfigurationError(f"rank {rank} was started twice: give every process its own RANK")
    keys = {peer: f"stepwatch/rank/{peer}" for peer in range(world)}
    try:
        store.wait(list(keys.values()), limit)
    except dist.DistError as error:
        missing = [str(peer) for peer, key in keys.items() if not store.check([key])]
        raise ConfigurationError(
            f"rank {', '.join(missing)} did not join within {limit.total_seconds():.0f} s: start "
            f"all {world} ranks, and see why those died"
        ) from error


@contextmanager
def joined_process_group(
    shape: MeshShape, timeout_seconds: float, device_type: str = "auto"
) -> Iterator[Runtime]:
    """Join the process group, yield the runtime, and destroy the group if no error occurred.

    After an error the group is not destroyed: its peers may be dead, and destroying it would wait
    for them until the timeout.

    Raises:
        ConfigurationError, UsageError: see `launched_rank` and `wait_for_all_ranks`; torch has no
            such device.
    """
    rank, world = launched_rank(os.environ, shape)
    device = _device(device_type, os.environ)
    limit = timedelta(seconds=timeout_seconds)
    store = _store(os.environ, limit)
    wait_for_all_ranks(store, rank, world, limit)
    dist.init_process_group(
        _backend(device),
        store=store,
        rank=rank,
        world_size=world,
        timeout=limit,
        device_id=device if device.type == "cuda" else None,
    )
    mesh = init_device_mesh(device.type, shape.sizes, mesh_dim_names=AXES)
    control_group = dist.new_group(backend="gloo", timeout=limit)
    yield Runtime(
        rank=rank,
        world=world,
        device=device,
        mesh=mesh,
        coordinates=shape.coordinates_of(rank),
        control_group=control_group,
    )
    dist.destroy_process_group()
