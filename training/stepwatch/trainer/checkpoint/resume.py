"""Resume: rank 0 chooses the newest valid checkpoint, every rank loads its part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.api import CheckpointException

from stepwatch.signals.errors import CheckpointError
from stepwatch.trainer.parallel.local_model import LocalModel

from . import layout
from .manifest import CheckpointManifest, read_manifest
from .metadata import MetadataReader
from .search import Rejection, newest_valid, require_own, require_same_identity
from .state import (
    materialise_moments,
    random_key,
    random_state,
    restore_random,
    set_optimizer_steps,
    state_tensors,
)
from .write import Ranks

_ANEW, _INCOMPATIBLE = -1, -2
"""Values that rank 0 broadcasts instead of a step."""


def choose_checkpoint(
    root: Path, ranks: Ranks, identity: Mapping[str, Any]
) -> tuple[CheckpointManifest | None, list[Rejection]]:
    """Choose the checkpoint to resume from; None to start from step 0.

    Only rank 0 reads, quarantines and lists rejections; the others use its choice.

    Raises:
        CheckpointError: another user may have written a checkpoint, or the newest valid one belongs
            to another model, data or seed.
    """
    rejections: list[Rejection] = []
    incompatible: CheckpointError | None = None
    choice = torch.tensor([_ANEW], dtype=torch.int64)
    if ranks.rank == 0:
        try:
            require_own(root)
            layout.remove_unfinished(root)
            manifest, rejections = newest_valid(root)
            if manifest is not None:
                require_same_identity(manifest, identity)
                choice.fill_(manifest.step)
        except CheckpointError as error:
            incompatible = error
            choice.fill_(_INCOMPATIBLE)
        except OSError as error:
            incompatible = CheckpointError(f"cannot use the checkpoints: {error}")
            choice.fill_(_INCOMPATIBLE)
    dist.broadcast(choice, group=ranks.group, group_src=0)
    step = int(choice.item())
    if step == _INCOMPATIBLE:
        raise incompatible or CheckpointError("the checkpoint does not fit this run; see rank 0")
    if step == _ANEW:
        return None, rejections
    return read_manifest(layout.published_path(root, step)), rejections


def load_checkpoint(
    root: Path, manifest: CheckpointManifest, model: LocalModel, ranks: Ranks, device: torch.device
) -> None:
    """Load this rank's part of a validated checkpoint; the mesh may differ from the saved one.

    Raises:
        CheckpointError: torch cannot load it.
    """
    materialise_moments(model)
    tensors: dict[str, Any] = state_tensors(model)
    same_ranks = manifest.progress["world"] == ranks.world
    if same_ranks:
        tensors |= random_state(ranks.rank, device)
    reader = MetadataReader(layout.published_path(root, manifest.step), manifest)
    try:
        state_dict_loader.load(tensors, storage_reader=reader, process_group=ranks.group)
    except CheckpointException as error:
        causes = [cause for cause, _ in error.failures.values()]
        raise CheckpointError(
            f"cannot load step {manifest.step}: {causes[0] if causes else error}"
        ) from error
    set_optimizer_steps(model, int(manifest.progress["optimizer_steps"]))
    if same_ranks and random_key(ranks.rank) in tensors:
        restore_random(tensors, ranks.rank, device)
