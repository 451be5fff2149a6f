"""Resuming: one rank finds the newest good checkpoint, all ranks load their share of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader

from stepwatch.signals.errors import CheckpointError
from stepwatch.trainer.parallel.assemble import Share

from . import layout
from .manifest import CheckpointManifest, read_manifest
from .search import Rejection, newest_good, require_compatible
from .state import (
    materialise_moments,
    random_key,
    random_state,
    restore_random,
    set_optimizer_steps,
    state_tensors,
)
from .write import Ranks

_NOTHING, _REFUSED = -1, -2


def choose(
    root: Path, ranks: Ranks, identity: Mapping[str, Any]
) -> tuple[CheckpointManifest | None, list[Rejection]]:
    """Agree on the checkpoint to resume from; None to start anew.

    Only the leading rank reads, quarantines and lists rejections; the others follow its choice.

    Raises:
        CheckpointError: the newest good checkpoint belongs to another model, data or seed.
    """
    rejections: list[Rejection] = []
    refusal: CheckpointError | None = None
    word = torch.tensor([_NOTHING], dtype=torch.int64)
    if ranks.rank == 0:
        layout.remove_unfinished(root)
        manifest, rejections = newest_good(root)
        try:
            if manifest is not None:
                require_compatible(manifest, identity)
                word.fill_(manifest.step)
        except CheckpointError as error:
            refusal = error
            word.fill_(_REFUSED)
    dist.broadcast(word, group=ranks.group, group_src=0)
    step = int(word.item())
    if step == _REFUSED:
        raise refusal or CheckpointError("the checkpoint does not fit this run; see rank 0")
    if step == _NOTHING:
        return None, rejections
    return read_manifest(layout.published_path(root, step)), rejections


def load(
    root: Path, manifest: CheckpointManifest, share: Share, ranks: Ranks, device: torch.device
) -> None:
    """Load this rank's share of a checked checkpoint, whatever mesh it was saved under.

    Raises:
        CheckpointError: torch cannot load it.
    """
    materialise_moments(share)
    tensors: dict[str, Any] = state_tensors(share)
    same_ranks = manifest.progress["world"] == ranks.world
    if same_ranks:
        tensors |= random_state(ranks.rank, device)
    reader = FileSystemReader(layout.published_path(root, manifest.step))
    try:
        state_dict_loader.load(tensors, storage_reader=reader, process_group=ranks.group)
    except CheckpointException as error:
        causes = [cause for cause, _ in error.failures.values()]
        raise CheckpointError(
            f"cannot load step {manifest.step}: {causes[0] if causes else error}"
        ) from error
    set_optimizer_steps(share, int(manifest.progress["optimizer_steps"]))
    if same_ranks and random_key(ranks.rank) in tensors:
        restore_random(tensors, ranks.rank, device)
