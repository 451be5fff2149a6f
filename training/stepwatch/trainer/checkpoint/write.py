"""Writes one checkpoint with all ranks: write, digest, publish by a rename, verify.

Every function here may run on a checkpoint thread; collectives use only the ranks' own group.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from stepwatch.signals.durable import sync, write_durably
from stepwatch.signals.errors import CheckpointError
from stepwatch.trainer.integrity import json_bytes

from . import layout
from .manifest import (
    CheckpointManifest,
    FileEntry,
    entry_error,
    entry_of,
    read_manifest,
    write_manifest,
)
from .metadata import METADATA_NAME

_NOT_FOR_ALL = 0o775
"""All users may read a checkpoint, regardless of the umask, but not write it."""


@dataclass(frozen=True)
class Ranks:
    """The ranks that write one checkpoint together, and this rank's place among them."""

    rank: int
    world: int
    group: dist.ProcessGroup

    def all_succeeded(self, succeeded: bool) -> bool:
        """Return whether every rank succeeded; every rank calls this."""
        flag = torch.tensor([1 if succeeded else 0], dtype=torch.int32)
        dist.all_reduce(flag, dist.ReduceOp.MIN, group=self.group)
        return bool(flag.item())


@dataclass(frozen=True)
class Written:
    """A durable checkpoint: bytes in all its files, seconds until it was durable."""

    size: int
    seconds: float


def _on_all_ranks(ranks: Ranks, action: str, work: Callable[[], None]) -> None:
    """Run `work` on every rank; if one rank fails, all raise.

    Raises:
        CheckpointError: `work` failed on a rank.
    """
    reason = None
    try:
        work()
    except (OSError, ValueError) as error:
        reason = f"{action}: {error}"
    if not ranks.all_succeeded(reason is None):
        raise CheckpointError(reason or f"{action}: another rank failed")


def _on_leader(ranks: Ranks, action: str, work: Callable[[], None]) -> None:
    """Run `work` on rank 0; if it fails, all ranks raise CheckpointError."""
    _on_all_ranks(ranks, action, work if ranks.rank == 0 else lambda: None)


def _is_own(name: str, rank: int) -> bool:
    return name.startswith(f"__{rank}_") or (rank == 0 and name == METADATA_NAME)


def _digest_note(directory: Path, rank: int) -> Path:
    return directory / f"digests-{rank:05d}.json"


def _note_digests(directory: Path, rank: int) -> None:
    paths = sorted(path for path in directory.iterdir() if _is_own(path.name, rank))
    for path in paths:
        path.chmod(path.stat().st_mode & _NOT_FOR_ALL)
        sync(path)
    entries = {path.name: asdict(entry_of(path)) for path in paths}
    write_durably(_digest_note(directory, rank), json_bytes(entries))


def _gather_digests(directory: Path, world: int) -> dict[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for rank in range(world):
        note = _digest_note(directory, rank)
        files |= {name: FileEntry(**row) for name, row in json.loads(note.read_bytes()).items()}
        note.unlink()
    return files


class _Writer(FileSystemWriter):
    """DCP's writer, which calls `on_stage("files")` before it writes this rank's files."""

    def __init__(self, directory: Path, on_stage: Callable[[str], None]) -> None:
        super().__init__(directory, sync_files=True)
        self._on_stage = on_stage

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's files.

        Raises:
            OSError: the storage refuses them.
        """
        self._on_stage("files")
        try:
            return super().write_data(plan, planner)
        except RuntimeError as error:
            # torch's archive writer raises its own RuntimeError over the storage's OSError.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def _write_tensors(
    tensors: dict[str, Any],
    directory: Path,
    group: dist.ProcessGroup,
    on_stage: Callable[[str], None],
) -> None:
    try:
        save(
            tensors, storage_writer=_Writer(directory, on_stage), process_group=group, no_dist=False
        )
    except CheckpointException as error:  # a BaseException; raised on every rank alike
        causes = [cause for cause, _ in error.failures.values()]
        raise CheckpointError(f"writing: {causes[0] if causes else error}") from error


def _clear(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=_NOT_FOR_ALL, parents=True)


def _publish(root: Path, manifest: CheckpointManifest, world: int) -> None:
    saving = layout.saving_path(root, manifest.step)
    final = layout.published_path(root, manifest.step)
    write_manifest(saving, replace(manifest, files=_gather_digests(saving, world)))
    if final.exists():
        layout.quarantine(root, manifest.step, "replaced by a newer save of the same step")
    saving.rename(final)
    sync(root)


def write_checkpoint(
    root: Path,
    manifest: CheckpointManifest,
    tensors: dict[str, Any],
    ranks: Ranks,
    on_stage: Callable[[str], None],
) -> Written:
    """Write `tensors` and publish them as the checkpoint for `manifest.step`.

    Args:
        root: directory for the checkpoints; the same on every rank.
        manifest: without files; they are added here.
        tensors: staged on the host; they must not change meanwhile.
        ranks: the ranks that write together.
        on_stage: called at the points `staged`, `files`, `written` and `renamed` (fault injection).
    Raises:
        CheckpointError: a rank cannot write; nothing is published.
    """
    begun = time.monotonic()
    saving = layout.saving_path(root, manifest.step)
    _on_leader(ranks, "begin", lambda: _clear(saving))
    on_stage("staged")
    _write_tensors(tensors, saving, ranks.group, on_stage)
    _on_all_ranks(ranks, "digest", lambda: _note_digests(saving, ranks.rank))
    on_stage("written")
    _on_leader(ranks, "publish", lambda: _publish(root, manifest, ranks.world))
    on_stage("renamed")
    size = read_manifest(layout.published_path(root, manifest.step)).size
    return Written(size, time.monotonic() - begun)


def verify_checkpoint(root: Path, step: int, ranks: Ranks, on_stage: Callable[[str], None]) -> None:
    """Verify the checkpoint, each rank its own files, and mark it as verified.

    Raises:
        CheckpointError: a file differs from its manifest, or cannot be read.
    """
    directory = layout.published_path(root, step)

    def compare() -> None:
        for name, entry in read_manifest(directory).files.items():
            reason = entry_error(directory, name, entry) if _is_own(name, ranks.rank) else None
            if reason is not None:
                raise ValueError(reason)

    on_stage("verifying")
    _on_all_ranks(ranks, "verify", compare)
    if ranks.rank == 0:
        write_durably(directory / layout.VERIFIED_NAME, b"")
