"""Finding the checkpoint to resume from: the newest that is good, whatever lies there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwatch.signals.errors import CheckpointError

from . import layout
from .manifest import CheckpointManifest, file_fault, read_manifest


@dataclass(frozen=True)
class Rejection:
    """A checkpoint that was found bad: its step, why, and where it lies now."""

    step: int
    reason: str
    moved_to: str


def checked(directory: Path) -> CheckpointManifest:
    """Read every byte of a checkpoint and hold it against its manifest.

    Only after this may torch read it: DCP's own `.metadata` is a pickle.

    Raises:
        ValueError: it is not good; says why.
    """
    manifest = read_manifest(directory)
    if not manifest.files:
        raise ValueError("its manifest lists no file")
    for name, entry in sorted(manifest.files.items()):
        if (fault := file_fault(directory, name, entry)) is not None:
            raise ValueError(fault)
    return manifest


def newest_good(root: Path) -> tuple[CheckpointManifest | None, list[Rejection]]:
    """Return the newest good checkpoint, if any, and every newer one that was rejected.

    Bad ones are moved to the quarantine; where that fails they stay and are passed over.
    """
    rejections: list[Rejection] = []
    for step in layout.published_steps(root):
        try:
            return checked(layout.published_path(root, step)), rejections
        except ValueError as error:
            rejections.append(_rejected(root, step, str(error)))
    return None, rejections


def _rejected(root: Path, step: int, reason: str) -> Rejection:
    try:
        return Rejection(step, reason, str(layout.quarantine(root, step, reason)))
    except OSError as error:
        return Rejection(step, reason, f"left in place ({error.strerror})")


def require_compatible(manifest: CheckpointManifest, identity: Mapping[str, Any]) -> None:
    """Hold the run against the checkpoint it would continue.

    Raises:
        CheckpointError: names the first key that differs and both values.
    """
    for key in sorted({*manifest.identity, *identity}):
        theirs, ours = manifest.identity.get(key), identity.get(key)
        if theirs != ours:
            raise CheckpointError(
                f"the checkpoint of step {manifest.step} has {key} = {theirs!r}, this run has "
                f"{ours!r}: use the same value, or --resume never with another --run-dir"
            )
